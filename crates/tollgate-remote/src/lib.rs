//! The parts that stores of [`tollgate`] behind a network share, so that each of them holds only
//! what is specific to it.

mod runtime;
mod settings;
mod url;

pub use runtime::Tokio;
pub use settings::{Certificates, Settings, reach};
pub use url::{Login, StoreUrl, invalid_url};
