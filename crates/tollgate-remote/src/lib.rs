//! The parts that stores of [`tollgate`] behind a network share, so that each of them holds only
//! what is specific to it.

mod announcements;
mod queues;
mod runtime;
mod settings;
mod url;
mod worker;

pub use announcements::{Announcement, Announcements, Channel, Hearing};
pub use queues::{InlineWorker, Queue, Queues};
pub use runtime::Tokio;
pub use settings::{Certificates, Settings, reach};
pub use url::{Login, StoreUrl, invalid_url};
