//! The documentation that the port serves.

use http::{HeaderValue, Response, StatusCode, header};

use super::reply::{Reply, bytes};

/// The description of all paths, for tools.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// Text for people with a browser or curl.
const TEXT: &str = "\
tollgate: may this key do this now, and if not, when?

  curl -X POST 'localhost:8080/v1/hit?limit=10/second&key=user:42'

POST /v1/hit      decide and charge            200 allowed, 429 denied
POST /v1/peek     would a hit pass?            also GET
POST /v1/take     grant as much as fits
POST /v1/charge   charge without asking
POST /v1/refund   give back
POST /v1/set      put the units in use at a number
POST /v1/reset    forget a key
POST /v1/usage    units in use                 also GET
POST /v1/all      several hits, all or nothing
POST /v1/batch    many questions, each on its own
     /v1/check    for proxies: no body, 200 or deny_status
GET  /openapi.json

limit is the name of a rule or a text such as 100/minute; key whose; cost units, 1 if not said; namespace where.
All of them by query, or as JSON in the body.
";

pub(super) fn text() -> Response<Reply> {
    of_type("text/plain; charset=utf-8", TEXT)
}

pub(super) fn openapi() -> Response<Reply> {
    of_type("application/json", OPENAPI)
}

fn of_type(kind: &'static str, body: &'static str) -> Response<Reply> {
    let mut response = bytes(StatusCode::OK, body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
