//! HTTP for tollgate: who the client is, and what the response tells it. Plain functions;
//! `tollgate-tower` and `tollgate-actix` are thin layers on them.
//!
//! - [`ClientIp`] and [`KeyBy`] find out who is to be limited, and believe no header that anybody
//!   could have written.
//! - [`Gate`] is the way of a request: key, limiter, cost, verdict, settlement.
//! - [`Headers`] and [`problem`](fn@problem) say it to the client.
//! - [`asked_wait`] is the client's side: what a response asks it to wait.
//!
//! See also the guides on [HTTP](https://github.com/tollgate-rs/tollgate/blob/main/guides/http.md),
//! on [choosing an
//! algorithm](https://github.com/tollgate-rs/tollgate/blob/main/guides/choose-an-algorithm.md) and
//! on [choosing a
//! store](https://github.com/tollgate-rs/tollgate/blob/main/guides/choose-a-store.md), and the
//! crates [tollgate-tower](https://docs.rs/tollgate-tower) and
//! [tollgate-actix](https://docs.rs/tollgate-actix).

mod callers;
mod chooser;
mod cidr;
mod client_ip;
mod count;
mod decider;
mod foreseen;
mod forwarded;
mod gate;
mod head;
mod headers;
mod key_by;
mod pace;
mod pass;
mod paths;
mod preflight;
mod problem;
mod reason;
mod refusal;
mod settle;
mod told;
mod verdict;

pub use callers::Caller;
pub use chooser::{Choice, Chooser, Chosen, Resolved};
pub use cidr::{Cidr, CidrError};
pub use client_ip::{ClientIp, WrittenIn};
pub use decider::Decider;
pub use foreseen::Foreseen;
pub use gate::{Gate, OnMissing};
pub use head::{Head, Lines};
pub use headers::{Draft, Headers, Reset};
pub use key_by::{KeyBy, RequestKey};
pub use pace::{asked_wait, rate_limit, retry_after};
pub use pass::Pass;
pub use paths::RuleError;
pub use problem::{PROBLEM_JSON, problem};
pub use reason::Reason;
pub use refusal::too_many_requests;
pub use settle::{Response, Settle, SettleBy};
pub use told::{Field, Shown, Told};
pub use verdict::{AtOnce, Question, Verdict};
