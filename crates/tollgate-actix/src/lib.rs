//! [`tollgate`] for actix-web: every response carries correct rate limit headers, the real client
//! is limited, and all workers count together.
//!
//! ```
//! use actix_web::{App, HttpResponse, web};
//! use tollgate::Memory;
//! use tollgate_actix::RateLimit;
//!
//! let limiter = Memory::new().limiter("100/minute")?;
//! let factory = move || {
//!     App::new()
//!         .wrap(RateLimit::new(limiter.clone()))
//!         .route("/", web::get().to(|| async { HttpResponse::Ok().body("hello") }))
//! };
//! # let _ = factory();
//! # Ok::<(), tollgate::Error>(())
//! ```
//!
//! ```toml
//! [dependencies]
//! tollgate = "0.1"
//! tollgate-actix = "0.1"
//! ```
//!
//! actix-web builds one app for each of its workers. A limiter is a handle: made before the factory
//! and cloned in it, as above, it counts for all of them.
//!
//! A [`Gate`] holds all other settings: key, limiter, cost, settlement and headers.
//!
//! ```
//! use tollgate::Memory;
//! use tollgate_actix::{ClientIp, Gate, KeyBy, RateLimit, Settle, SettleBy};
//!
//! let gate = Gate::new(Memory::new().limiter("10/minute name=login")?)
//!     .key(KeyBy::client_ip(ClientIp::behind(["10.0.0.0/8"])?))
//!     // A login that succeeds costs nothing.
//!     .settle(SettleBy::head(|response| {
//!         if response.status == 200 { Settle::Nothing } else { Settle::AsCharged }
//!     }))
//!     .problem_json();
//! let middleware = RateLimit::from_gate(gate);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A handler finds the [`Decision`](tollgate::Decision) among the extensions of its request.
//!
//! ```
//! use actix_web::web::ReqData;
//! use tollgate::Decision;
//!
//! async fn left(decision: Option<ReqData<Decision>>) -> String {
//!     decision.map_or("no limit".into(), |decision| format!("{} left", decision.remaining()))
//! }
//! ```
//!
//! A request whose handler panics stays charged. A request that waits for its turn and whose client
//! goes away leaves the queue.
//!
//! See also the guides on [HTTP](https://github.com/tollgate-rs/tollgate/blob/main/guides/http.md),
//! on [choosing an
//! algorithm](https://github.com/tollgate-rs/tollgate/blob/main/guides/choose-an-algorithm.md) and
//! on [choosing a
//! store](https://github.com/tollgate-rs/tollgate/blob/main/guides/choose-a-store.md), and the
//! crates [tollgate-http](https://docs.rs/tollgate-http), which holds everything that is not
//! actix-web's, [tollgate-tower](https://docs.rs/tollgate-tower), and
//! [tollgate-redis](https://docs.rs/tollgate-redis) for limits that many machines share.

mod body;
mod fields;
mod rate_limit;
mod refusal;
mod service;

pub use body::Counted;
pub use rate_limit::RateLimit;
pub use refusal::{Refusal, too_many_requests};
pub use service::RateLimitService;

pub use tollgate_http::{
    Caller, Chooser, Cidr, CidrError, ClientIp, Decider, Draft, Gate, Head, Headers, KeyBy,
    OnMissing, Reason, RequestKey, Reset, Response, RuleError, Settle, SettleBy, WrittenIn,
};
