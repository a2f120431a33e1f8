//! [`tollgate`] for tower: servers of axum, tonic and hyper that limit their clients, and clients
//! that stay under a limit.
//!
//! ```no_run
//! use tollgate::Memory;
//! use tollgate_tower::RateLimitLayer;
//!
//! # async fn serve(app: axum::Router) -> Result<(), Box<dyn std::error::Error>> {
//! # let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//! let limit = RateLimitLayer::new(Memory::new().limiter("100/minute")?);
//! axum::serve(listener, limit.around(app)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! ```toml
//! [dependencies]
//! tollgate = "0.1"
//! tollgate-tower = { version = "0.1", features = ["axum"] } # or "tonic", "reqwest", "metrics"
//! ```
//!
//! That limits each address. It is a layer as well, for some routes, or for services that are not
//! axum's. Servers have to pass addresses on to a layer, else all clients share one bucket and a
//! warning says so:
//!
//! | server | how |
//! | --- | --- |
//! | axum | feature `axum`; around an app, nothing; inside, `app.into_make_service_with_connect_info::<SocketAddr>()` |
//! | tonic | feature `tonic` |
//! | hyper, or anything else | an extension [`PeerAddr`] in each request |
//!
//! Behind a proxy the address is the proxy's: say whom you trust, with [`ClientIp`]. What is
//! limited, by which limiter and at what cost is told to a
//! [`Gate`]:
//!
//! ```
//! use tollgate::Memory;
//! use tollgate_tower::{Chooser, ClientIp, Gate, KeyBy, RateLimitLayer};
//!
//! let store = Memory::new();
//! let by_route = Chooser::one(store.limiter("20/second; 500/minute")?)
//!     .on("*", "/login", store.limiter("5/minute name=login")?)?
//!     .unlimited("GET", "/static/*")?;
//! let gate = Gate::choosing(by_route).key(KeyBy::client_ip(ClientIp::behind(["10.0.0.0/8"])?));
//! let layer = RateLimitLayer::of(gate.problem_json());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Handlers find what was decided as an extension, where the layer is
//! [asked](RateLimitLayer::tell_handlers) to tell them: [`Decided`]. gRPC requests are refused as
//! gRPC has it: `RESOURCE_EXHAUSTED` with a `RetryInfo`. [`PaceLayer`] is for the other side: it
//! makes a client wait its turn and obey what servers ask for.
//!
//! Nothing is boxed on the way of a request that a limiter in this process lets pass. What is:
//! plans that are looked up, decisions of shared stores and waits, because their futures have no
//! name; what settles a body, so that the type of a body does not depend on the store; around an
//! app, what does not just pass, because servers move futures about; requests of [`PaceLayer`].
//!
//! See also the guides on [HTTP](https://github.com/tollgate-rs/tollgate/blob/main/guides/http.md),
//! on [choosing an
//! algorithm](https://github.com/tollgate-rs/tollgate/blob/main/guides/choose-an-algorithm.md) and
//! on [choosing a
//! store](https://github.com/tollgate-rs/tollgate/blob/main/guides/choose-a-store.md), and the
//! crates [tollgate-http](https://docs.rs/tollgate-http), which holds everything that is not
//! tower's, [tollgate-actix](https://docs.rs/tollgate-actix), and
//! [tollgate-redis](https://docs.rs/tollgate-redis) for limits that many machines share.

#[cfg(feature = "axum")]
mod around;
mod body;
mod decided;
mod future;
mod grpc;
mod headers;
mod layer;
mod pace;
mod peer;
mod refusal;
mod service;

#[cfg(feature = "axum")]
pub use around::{Around, AroundFuture, Connection};
pub use body::Body;
pub use decided::Decided;
pub use future::ResponseFuture;
pub use layer::RateLimitLayer;
pub use pace::{Answered, Outgoing, Pace, PaceError, PaceLayer};
pub use peer::PeerAddr;
pub use refusal::Refusal;
pub use service::RateLimit;

pub use tollgate_http::{
    Caller, Chooser, Cidr, CidrError, ClientIp, Decider, Draft, Gate, Head, Headers, KeyBy,
    OnMissing, Reason, RequestKey, Reset, Response, RuleError, Settle, SettleBy, WrittenIn,
    too_many_requests,
};

// Here, because this crate can see all that they speak of.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
#[cfg(doctest)]
#[doc = include_str!("../../../guides/http.md")]
mod guide {}
