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
//! warning is logged:
//!
//! | server | how |
//! | --- | --- |
//! | axum | feature `axum`; around an app, nothing; inside, `app.into_make_service_with_connect_info::<SocketAddr>()` |
//! | tonic | feature `tonic` |
//! | hyper, or anything else | an extension [`PeerAddr`] in each request |
//!
//! Behind a proxy the address is the proxy's: name the proxies that you trust, with [`ClientIp`].
//! A [`Gate`] holds the settings: key, limiter, cost and headers:
//!
//! ```
//! use tollgate::Memory;
//! use tollgate_tower::{Chooser, ClientIp, Gate, KeyBy, RateLimitLayer};
//!
//! let store = Memory::new();
//! let by_route = Chooser::one(store.limiter("20/second; 500/minute")?)
//!     .on("*", "/login", store.limiter("5/minute name=login")?)?
//!     .unlimited("GET", "/static/*")?;
//! let gate = Gate::from_chooser(by_route).key(KeyBy::client_ip(ClientIp::behind(["10.0.0.0/8"])?));
//! let layer = RateLimitLayer::from_gate(gate.problem_json());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Handlers find the decision as an extension, [`Decided`], where the layer is
//! [set](RateLimitLayer::tell_handlers) to insert it. A refused gRPC request gets
//! `RESOURCE_EXHAUSTED` with a `RetryInfo`. [`PaceLayer`] is for clients: it makes them wait their
//! turn and obey the waits that servers ask for.
//!
//! A request that a limiter in this process admits allocates no box. Boxes hold the futures of
//! plans, callers, shared stores and waits; refused requests; decisions that are settled or that
//! handlers find; the function that settles a body; requests of [`PaceLayer`].
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

// The examples of the README are tested here, because this crate depends on all crates that they
// use.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
#[cfg(doctest)]
#[doc = include_str!("../../../guides/http.md")]
mod guide {}
