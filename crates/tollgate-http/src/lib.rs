//! HTTP for tollgate: the key of a request, the decision, and the headers of the response. Plain
//! functions; `tollgate-tower` and `tollgate-actix` are thin layers on them.
//!
//! - [`ClientIp`] and [`KeyBy`] find the key of a request, and trust no header that a client could
//!   have written.
//! - [`Gate`] takes a request from key and limiter to its [`Admission`].
//! - [`Headers`] and [`problem`](fn@problem) describe the decision to the client.
//! - [`asked_wait`] is for clients: how long a response asks them to wait.
//!
//! See also the guides on [HTTP](https://github.com/tollgate-rs/tollgate/blob/main/guides/http.md),
//! on [choosing an
//! algorithm](https://github.com/tollgate-rs/tollgate/blob/main/guides/choose-an-algorithm.md) and
//! on [choosing a
//! store](https://github.com/tollgate-rs/tollgate/blob/main/guides/choose-a-store.md), and the
//! crates [tollgate-tower](https://docs.rs/tollgate-tower) and
//! [tollgate-actix](https://docs.rs/tollgate-actix).

mod admission;
mod callers;
mod chooser;
mod cidr;
mod client_ip;
mod count;
mod decider;
mod forwarded;
mod gate;
mod head;
mod header_figures;
mod headers;
mod key_by;
mod limited_request;
mod pace;
mod paths;
mod preflight;
mod problem;
mod refused_request;
mod settle;
mod too_many_requests;

pub use admission::{Admission, AdmittedRequest, Deciding};
pub use callers::Caller;
pub use chooser::Chooser;
pub use cidr::{Cidr, CidrError};
pub use client_ip::{ClientIp, WrittenIn};
pub use decider::Decider;
pub use forwarded::address;
pub use gate::{Gate, OnMissing};
pub use head::{Head, Lines};
pub use header_figures::{Field, HeaderFigures, LimitHeaders};
pub use headers::{Draft, Headers, Reset};
pub use key_by::{KeyBy, RequestKey};
pub use limited_request::LimitedRequest;
pub use pace::{asked_wait, rate_limit, retry_after};
pub use paths::{PathPattern, RuleError, clean_path};
pub use problem::{PROBLEM_JSON, problem};
pub use refused_request::{Reason, RefusedRequest};
pub use settle::{Response, Settle, SettleBy};
pub use too_many_requests::too_many_requests;
