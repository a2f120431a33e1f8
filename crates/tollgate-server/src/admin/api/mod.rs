//! The API of the dashboard and of `tollgate top`: JSON below `/api/v1`.
//!
//! A field is never renamed or given another meaning within a version; fields are added. Requests
//! about one key have it in their body and not in the URL, because proxies log URLs.

mod actions;
pub(super) mod bans;
mod events;
mod key;
mod keys;
mod overview;
mod playground;
mod rules;
mod session;
mod store;

pub(super) use events::{Events, record};

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;

use super::access::Caller;
use super::{Admin, Body, whole};
use crate::http::{Browsers, Problem, Reply, of_json, read_body};

/// Logging in and out, and who is logged in.
const SESSION: &str = "/api/v1/session";

/// Whether this path needs no token.
pub(super) fn is_session(path: &str) -> bool {
    path == SESSION
}

/// A path of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Session,
    Overview,
    Rules,
    Keys,
    Bans,
    Key,
    Store,
    Playground,
    Stream,
    Action(actions::Action),
}

const ROUTES: &[(&str, Route)] = &[
    (SESSION, Route::Session),
    ("/api/v1/overview", Route::Overview),
    ("/api/v1/rules", Route::Rules),
    ("/api/v1/keys", Route::Keys),
    ("/api/v1/bans", Route::Bans),
    ("/api/v1/key", Route::Key),
    ("/api/v1/store", Route::Store),
    ("/api/v1/playground", Route::Playground),
    ("/api/v1/stream", Route::Stream),
    ("/api/v1/actions/reset", Route::Action(actions::Action::Reset)),
    ("/api/v1/actions/refund", Route::Action(actions::Action::Refund)),
    ("/api/v1/actions/set", Route::Action(actions::Action::Set)),
];

/// Answers a request. Without a caller only the session can be asked for.
pub(super) async fn answer(
    admin: Arc<Admin>,
    caller: Option<Caller>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let path = request.uri().path();
    let Some((_, route)) = ROUTES.iter().find(|(known, _)| *known == path) else {
        let known: Vec<_> = ROUTES.iter().map(|(path, _)| *path).collect();
        let detail = format!("path {path:?}: unknown; known are {}", known.join(", "));
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    };
    check_method(*route, request.method())?;
    if request.method() == Method::POST
        && let Some(problem) = Browsers::refuse_foreign(&request)
    {
        return Err(problem);
    }
    let query = request.uri().query().unwrap_or("").to_owned();
    let service = &admin.service;
    match (route, caller) {
        (Route::Session, _) => session::answer(&admin, request).await.map(whole),
        (_, None) => Err(Problem::new(StatusCode::UNAUTHORIZED, "a token is needed")),
        (Route::Overview, _) => Ok(json(&overview::with_history(&admin))),
        (Route::Rules, _) => Ok(json(&rules::all(service))),
        (Route::Keys, _) => keys::all(service, &query).map(|keys| json(&keys)),
        (Route::Bans, _) => bans::list(service, &query).map(|bans| json(&bans)),
        (Route::Store, _) => Ok(json(&store::all(&admin))),
        (Route::Playground, _) => playground::answer(&query).map(|charts| json(&charts)),
        (Route::Stream, Some(caller)) => events::stream(&admin, caller),
        (Route::Key, _) => {
            let (_, body) = json_body(&admin, request).await?;
            key::answer(service, &body).await.map(|key| json(&key))
        }
        (Route::Action(action), Some(caller)) => {
            action.check_scope(&caller)?;
            let (_, body) = json_body(&admin, request).await?;
            action.run(service, &caller, &body).await.map(|key| json(&key))
        }
    }
}

fn check_method(route: Route, method: &Method) -> Result<(), Problem> {
    let expected = match route {
        Route::Session => "GET, HEAD, POST, DELETE",
        Route::Key | Route::Action(_) => "POST",
        _ => "GET, HEAD",
    };
    if expected.split(", ").any(|expected| expected == method.as_str()) {
        return Ok(());
    }
    let detail = format!("method {method}: expected {expected}");
    Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail))
}

/// The body of a request. A form of another site cannot send this media type.
async fn json_body(admin: &Admin, request: Request<Incoming>) -> Result<(Parts, Bytes), Problem> {
    if !is_json(request.headers()) {
        let detail = "content-type: expected application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let (head, body) = request.into_parts();
    Ok((head, read_body(body, admin.patience).await?))
}

fn is_json(headers: &HeaderMap) -> bool {
    let is_json = |value: &HeaderValue| {
        let kind = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("application/json")
    };
    headers.get(header::CONTENT_TYPE).is_some_and(is_json)
}

fn json(value: &serde_json::Value) -> Response<Body> {
    whole(reply(value))
}

fn reply(value: &serde_json::Value) -> Response<Reply> {
    let mut response = of_json(StatusCode::OK, value.to_string());
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}
