//! One hello world, and the middleware in front of it. No request is denied: limits are out of
//! reach, and the client is always the same.

use crate::Outcome;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use axum::routing::get;
use governor::clock::QuantaInstant;
use governor::middleware::{NoOpMiddleware, StateInformationMiddleware};
use std::sync::Arc;
use tollgate::{Atomic, Limiter, Memory};
use tollgate_tower::{Around, Gate, Headers, RateLimitLayer};
use tower::Layer;
use tower::util::{MapResponse, MapResponseLayer};
use tower_governor::GovernorLayer;
use tower_governor::governor::{Governor, GovernorConfigBuilder};
use tower_governor::key_extractor::PeerIpKeyExtractor;

pub(crate) struct Contender {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// Whether responses have headers of the limit.
    pub(crate) tells: bool,
    pub(crate) app: fn() -> Outcome<App>,
}

/// An app with its middleware.
pub(crate) enum App {
    /// No middleware, and the peer address is not passed on.
    Unknowing(Router),
    /// No middleware, or a middleware inside the router.
    Inside(Router),
    Constant(MapResponse<Router, fn(Response) -> Response>),
    Tollgate(Around<Limiter<Memory>>),
    Governor(Governor<PeerIpKeyExtractor, NoOpMiddleware<QuantaInstant>, Router, Body>),
    GovernorTells(Governor<PeerIpKeyExtractor, StateInformationMiddleware, Router, Body>),
}

pub(crate) const NONE: &str = "none";
/// The time that axum takes for any layer at all, and for headers like ours: no limiter can be
/// faster.
pub(crate) const EMPTY: &str = "empty";
pub(crate) const CONSTANT: &str = "constant";
pub(crate) const TOLLGATE: &str = "tollgate";
pub(crate) const QUIET: &str = "tollgate-quiet";
pub(crate) const GOVERNOR: &str = "governor";
pub(crate) const GOVERNOR_TELLS: &str = "governor-tells";
pub(crate) const AROUND_CONSTANT: &str = "around-constant";
pub(crate) const AROUND: &str = "around";
pub(crate) const AROUND_QUIET: &str = "around-quiet";
pub(crate) const GOVERNOR_AROUND: &str = "governor-around";
pub(crate) const GOVERNOR_AROUND_TELLS: &str = "governor-around-tells";

/// A million per second. With its name the headers are a byte longer than those of `100/minute`.
const OUT_OF_REACH: &str = "1000000/second name=clients";

pub(crate) const ALL: &[Contender] = &[
    Contender { id: NONE, title: "no limiter", tells: false, app: none },
    Contender {
        id: "unknowing",
        title: "no limiter, peers not passed on",
        tells: false,
        app: unknowing,
    },
    Contender { id: AROUND, title: "tollgate-tower, around", tells: true, app: around },
    Contender {
        id: AROUND_QUIET,
        title: "tollgate-tower, around",
        tells: false,
        app: around_quiet,
    },
    Contender { id: GOVERNOR_TELLS, title: "tower_governor", tells: true, app: governor_tells },
    Contender { id: GOVERNOR, title: "tower_governor", tells: false, app: governor },
    Contender { id: TOLLGATE, title: "tollgate-tower, Memory", tells: true, app: memory },
    Contender { id: QUIET, title: "tollgate-tower, Memory", tells: false, app: quiet },
    Contender { id: "tollgate-atomic", title: "tollgate-tower, Atomic", tells: true, app: atomic },
    Contender {
        id: GOVERNOR_AROUND_TELLS,
        title: "tower_governor, around",
        tells: true,
        app: governor_around_tells,
    },
    Contender {
        id: GOVERNOR_AROUND,
        title: "tower_governor, around",
        tells: false,
        app: governor_around,
    },
    Contender {
        id: AROUND_CONSTANT,
        title: "two fixed headers, around",
        tells: true,
        app: around_constant,
    },
    Contender {
        id: CONSTANT,
        title: "a layer that adds two fixed headers",
        tells: true,
        app: constant,
    },
    Contender { id: EMPTY, title: "a layer that does nothing", tells: false, app: empty },
];

pub(crate) fn find(id: &str) -> Outcome<&'static Contender> {
    let found = ALL.iter().find(|contender| contender.id == id);
    Ok(found.ok_or_else(|| format!("contender `{id}`: there is none of that name"))?)
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello, world" }))
}

fn none() -> Outcome<App> {
    Ok(App::Inside(hello()))
}

fn unknowing() -> Outcome<App> {
    Ok(App::Unknowing(hello()))
}

fn empty() -> Outcome<App> {
    Ok(App::Inside(hello().layer(MapResponseLayer::new(|response: Response| response))))
}

fn constant() -> Outcome<App> {
    Ok(App::Inside(hello().layer(MapResponseLayer::new(with_headers))))
}

fn around_constant() -> Outcome<App> {
    Ok(App::Constant(MapResponse::new(hello(), with_headers)))
}

/// The same headers as tollgate's, as long as those, and always the same.
fn with_headers(mut response: Response) -> Response {
    const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
    const LEFT: HeaderName = HeaderName::from_static("ratelimit");
    let policy = HeaderValue::from_static(r#""clients";q=1000000;w=1"#);
    let left = HeaderValue::from_static(r#""clients";r=999999;t=1"#);
    response.headers_mut().append(POLICY, policy);
    response.headers_mut().append(LEFT, left);
    response
}

fn tells() -> Outcome<RateLimitLayer<Limiter<Memory>>> {
    Ok(RateLimitLayer::new(Memory::new().limiter(OUT_OF_REACH)?))
}

fn tells_not() -> Outcome<RateLimitLayer<Limiter<Memory>>> {
    let gate = Gate::new(Memory::new().limiter(OUT_OF_REACH)?);
    Ok(RateLimitLayer::from_gate(gate.headers(Headers::none())))
}

fn memory() -> Outcome<App> {
    Ok(App::Inside(hello().layer(tells()?)))
}

fn quiet() -> Outcome<App> {
    Ok(App::Inside(hello().layer(tells_not()?)))
}

fn atomic() -> Outcome<App> {
    let limiter = Atomic::new().limiter(OUT_OF_REACH)?;
    Ok(App::Inside(hello().layer(RateLimitLayer::new(limiter))))
}

fn around() -> Outcome<App> {
    Ok(App::Tollgate(tells()?.around(hello())))
}

fn around_quiet() -> Outcome<App> {
    Ok(App::Tollgate(tells_not()?.around(hello())))
}

const NO_SUCH_LIMIT: &str = "tower_governor: no such limit";

fn governed() -> Outcome<GovernorLayer<PeerIpKeyExtractor, NoOpMiddleware<QuantaInstant>, Body>> {
    let config = GovernorConfigBuilder::default().per_nanosecond(1).burst_size(1_000_000).finish();
    Ok(GovernorLayer::new(Arc::new(config.ok_or(NO_SUCH_LIMIT)?)))
}

fn governed_tells() -> Outcome<GovernorLayer<PeerIpKeyExtractor, StateInformationMiddleware, Body>>
{
    let mut config = GovernorConfigBuilder::default();
    let config = config.per_nanosecond(1).burst_size(1_000_000).use_headers().finish();
    Ok(GovernorLayer::new(Arc::new(config.ok_or(NO_SUCH_LIMIT)?)))
}

fn governor() -> Outcome<App> {
    Ok(App::Inside(hello().layer(governed()?)))
}

fn governor_tells() -> Outcome<App> {
    Ok(App::Inside(hello().layer(governed_tells()?)))
}

fn governor_around() -> Outcome<App> {
    Ok(App::Governor(governed()?.layer(hello())))
}

fn governor_around_tells() -> Outcome<App> {
    Ok(App::GovernorTells(governed_tells()?.layer(hello())))
}
