//! Responses.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use tollgate_http::Headers;

use super::json;
use super::key_request::KeyText;
use crate::service::RuleDecision;

/// The body of every response, complete.
pub(crate) type Reply = Full<Bytes>;

pub(crate) fn bytes(status: StatusCode, body: Bytes) -> Response<Reply> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
}

/// JSON that no cache keeps.
pub(crate) fn of_json(status: StatusCode, mut body: String) -> Response<Reply> {
    body.push('\n');
    let mut response = bytes(status, body.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A decision: 200 if it passes, 429 if not, with the headers for clients.
pub(super) fn decision(decision: &RuleDecision<'_>, key: &KeyText<'_>) -> Response<Reply> {
    let status = if decision.passes() { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let mut body = String::with_capacity(288);
    json::decision(decision, key, &mut body);
    let mut response = of_json(status, body);
    rate_limit(decision, response.headers_mut());
    response
}

/// Adds `RateLimit`, `RateLimit-Policy` and, on a denial, `Retry-After`.
pub(crate) fn rate_limit(decision: &RuleDecision<'_>, headers: &mut HeaderMap) {
    if let Some(figures) = decision.figures(&Headers::default()) {
        figures.write(|field, value| {
            headers.insert(HeaderName::from_static(field.name()), value);
        });
    }
}
