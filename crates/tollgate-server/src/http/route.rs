//! Routes by path.

use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;

use super::key_request::{KeyRequest, Verb};
use super::problem::Problem;
use super::reply::Reply;
use super::{body, check, help, operations};
use crate::service::Service;

/// The handler of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    One(Verb),
    All,
    Batch,
    Check,
    OpenApi,
    Help,
}

const ROUTES: &[(&str, Route)] = &[
    ("/v1/hit", Route::One(Verb::Hit)),
    ("/v1/peek", Route::One(Verb::Peek)),
    ("/v1/take", Route::One(Verb::Take)),
    ("/v1/charge", Route::One(Verb::Charge)),
    ("/v1/refund", Route::One(Verb::Refund)),
    ("/v1/set", Route::One(Verb::Set)),
    ("/v1/reset", Route::One(Verb::Reset)),
    ("/v1/usage", Route::One(Verb::Usage)),
    ("/v1/all", Route::All),
    ("/v1/batch", Route::Batch),
    ("/v1/check", Route::Check),
    ("/openapi.json", Route::OpenApi),
    ("/", Route::Help),
];

/// The name of a path in traces; `unknown` for any other path, because clients invent paths.
pub(super) fn name(path: &str) -> &'static str {
    ROUTES.iter().find(|(known, _)| *known == path).map_or("unknown", |(known, _)| known)
}

/// Answers a request whose body arrives within `patience`.
pub(super) async fn answer(
    service: &Service,
    patience: Duration,
    request: Request<Incoming>,
) -> Response<Reply> {
    routed(service, patience, request).await.unwrap_or_else(|problem| problem.response())
}

async fn routed(
    service: &Service,
    patience: Duration,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Problem> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let query = head.uri.query().unwrap_or("");
    let Some((_, route)) = ROUTES.iter().find(|(known, _)| *known == path) else {
        let known: Vec<_> = ROUTES.iter().map(|(path, _)| *path).collect();
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            format!("path {path:?}: unknown; known are {}", known.join(", ")),
        ));
    };
    if let Some(refused) = refused_method(*route, &head.method) {
        return Ok(refused);
    }
    match route {
        Route::One(verb) => {
            let body = body::read(body, patience).await?;
            operations::one(service, *verb, &KeyRequest::read(query, &body)?).await
        }
        Route::All => operations::all(service, &body::read(body, patience).await?).await,
        Route::Batch => operations::batch(service, &body::read(body, patience).await?).await,
        Route::Check => check::check(service, query, &head.headers).await,
        Route::OpenApi => Ok(help::openapi()),
        Route::Help => Ok(help::text()),
    }
}

/// GET changes nothing, because caches and previews send it by themselves. Proxies check with the
/// method of their client, so a check accepts any method.
fn refused_method(route: Route, method: &Method) -> Option<Response<Reply>> {
    let allowed = match route {
        Route::Check => return None,
        Route::One(Verb::Peek | Verb::Usage) => "GET, HEAD, POST",
        Route::OpenApi | Route::Help => "GET, HEAD",
        Route::One(_) | Route::All | Route::Batch => "POST",
    };
    if allowed.split(", ").any(|allowed| allowed == method.as_str()) {
        return None;
    }
    let detail = format!("method {method}: expected {allowed}");
    let mut response = Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document that describes the paths, and the paths.
    #[test]
    fn every_path_is_described() {
        let document: serde_json::Value = serde_json::from_str(help::OPENAPI).unwrap();
        let described = document["paths"].as_object().unwrap();
        for (path, _) in ROUTES.iter().filter(|(path, _)| *path != "/") {
            assert!(described.contains_key(*path), "{path}");
        }
        assert_eq!(described.len(), ROUTES.len() - 1);
        for (path, operations) in described {
            for (method, operation) in operations.as_object().unwrap() {
                let known = operation["responses"].as_object().unwrap();
                let mut statuses = vec!["200", "401", "403", "431"];
                statuses.extend((path != "/v1/check").then_some("405"));
                statuses.extend(["408", "413"].iter().filter(|_| method == "post"));
                for status in statuses {
                    assert!(known.contains_key(status), "{method} {path}: {status}");
                }
            }
        }
    }
}
