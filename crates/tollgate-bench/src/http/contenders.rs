//! One hello world, and what may stand before it. Nobody is refused: limits are out of reach, and the client is always the same.

use crate::Outcome;
use axum::Router;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;
use tollgate::{Atomic, Memory};
use tollgate_tower::{Gate, Headers, RateLimitLayer};
use tower::util::MapResponseLayer;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

pub(crate) struct Contender {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// Whether responses tell of the limit.
    pub(crate) tells: bool,
    pub(crate) app: fn() -> Outcome<Router>,
}

pub(crate) const NONE: &str = "none";
/// What axum takes for any layer at all, and for headers like ours: no limiter can be faster.
pub(crate) const EMPTY: &str = "empty";
pub(crate) const CONSTANT: &str = "constant";
pub(crate) const TOLLGATE: &str = "tollgate";
pub(crate) const QUIET: &str = "tollgate-quiet";
pub(crate) const GOVERNOR: &str = "governor";
pub(crate) const GOVERNOR_TELLS: &str = "governor-tells";

/// A billion in a second.
const OUT_OF_REACH: &str = "1000000000/second";

pub(crate) const ALL: &[Contender] = &[
    Contender { id: NONE, title: "no limiter", tells: false, app: || Ok(hello()) },
    Contender { id: EMPTY, title: "a layer that does nothing", tells: false, app: empty },
    Contender {
        id: CONSTANT,
        title: "a layer that adds two fixed headers",
        tells: true,
        app: constant,
    },
    Contender { id: TOLLGATE, title: "tollgate-tower, Memory", tells: true, app: memory },
    Contender { id: QUIET, title: "tollgate-tower, Memory", tells: false, app: quiet },
    Contender { id: "tollgate-atomic", title: "tollgate-tower, Atomic", tells: true, app: atomic },
    Contender { id: GOVERNOR_TELLS, title: "tower_governor", tells: true, app: governor_tells },
    Contender { id: GOVERNOR, title: "tower_governor", tells: false, app: governor },
];

pub(crate) fn find(id: &str) -> Outcome<&'static Contender> {
    let found = ALL.iter().find(|contender| contender.id == id);
    Ok(found.ok_or_else(|| format!("contender `{id}`: there is none of that name"))?)
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello, world" }))
}

fn empty() -> Outcome<Router> {
    Ok(hello().layer(MapResponseLayer::new(|response: Response| response)))
}

/// The same headers as tollgate's, as long as those, and always the same.
fn constant() -> Outcome<Router> {
    const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
    const LEFT: HeaderName = HeaderName::from_static("ratelimit");
    Ok(hello().layer(MapResponseLayer::new(|mut response: Response| {
        let policy = HeaderValue::from_static(r#""1000000000/second";q=1000000000;w=1"#);
        let left = HeaderValue::from_static(r#""1000000000/second";r=999999999;t=1"#);
        response.headers_mut().append(POLICY, policy);
        response.headers_mut().append(LEFT, left);
        response
    })))
}

fn memory() -> Outcome<Router> {
    Ok(hello().layer(RateLimitLayer::new(Memory::new().limiter(OUT_OF_REACH)?)))
}

fn atomic() -> Outcome<Router> {
    Ok(hello().layer(RateLimitLayer::new(Atomic::new().limiter(OUT_OF_REACH)?)))
}

fn quiet() -> Outcome<Router> {
    let gate = Gate::new(Memory::new().limiter(OUT_OF_REACH)?).headers(Headers::none());
    Ok(hello().layer(RateLimitLayer::of(gate)))
}

fn governor() -> Outcome<Router> {
    let config = GovernorConfigBuilder::default().per_nanosecond(1).burst_size(1_000_000).finish();
    Ok(hello().layer(GovernorLayer::new(Arc::new(config.ok_or("tower_governor: no such limit")?))))
}

fn governor_tells() -> Outcome<Router> {
    let mut config = GovernorConfigBuilder::default();
    let config = config.per_nanosecond(1).burst_size(1_000_000).use_headers().finish();
    Ok(hello().layer(GovernorLayer::new(Arc::new(config.ok_or("tower_governor: no such limit")?))))
}
