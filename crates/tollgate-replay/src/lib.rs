//! Runs limits on the requests of access logs: which clients would this limit have denied last
//! week?
//!
//! ```text
//! files ──▶ lines ──▶ format ──▶ requests ──▶ order ──▶ limiters ──▶ report
//!           input     format     requests     order     run          report/
//!           gzip,     pattern,   start, key,  by start  production   text, JSON,
//!           zstd      json, csv  cost         time      algorithms   HTML
//! ```
//!
//! - A log says when a request *ended*. Where it also says how long the request took, the replay
//!   computes the start, and puts requests into the order of their starts within a window.
//! - A log with whole seconds is replayed twice: with all requests of a second at its start, and
//!   spread evenly over it. The real result lies between the two.
//! - The decisions are those of a [`Memory`](tollgate::Memory) store whose clock is the log's, so
//!   the same code decides as in a server.
//! - Memory is bounded: ten million keys, lines of a mebibyte, 1.5 million requests that wait to be
//!   put in order.
//!
//! The command `tollgate replay` uses this crate.

#![forbid(unsafe_code)]

mod columns;
mod counts;
mod demand;
mod fields;
mod filter;
mod format;
mod input;
mod json;
mod key;
mod keys;
mod log;
mod order;
mod pattern;
mod reading;
mod replay;
mod report;
mod requests;
mod role;
mod row;
mod run;
mod time;
mod zone;

pub use counts::{LineCounts, UnreadableLine};
pub use filter::Filter;
pub use format::Format;
pub use input::BytesRead;
pub use key::{KeyPart, PathTemplates};
pub use reading::Reading;
pub use replay::{DeniedRequest, MAX_KEYS, OnDenied, Progress, Replay};
pub use report::{AffectedKey, CandidateReport, DemandReport, Report, SpreadReport, anonymous};
pub use role::{Role, Unit};
pub use run::{Candidate, KeyDenials, Treatment};
pub use time::{Stamp, parse_time};
pub use zone::Zone;
