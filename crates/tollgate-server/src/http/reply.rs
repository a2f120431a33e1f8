//! Responses.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use tollgate::Limit;
use tollgate_http::{Headers, LimitHeaders};

use super::json;
use crate::service::Answer;

/// The body of every response: there already.
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

/// An answer: 200 if it passes, 429 if not, with the headers that a browser's client would get.
pub(crate) fn answer(
    answer: &Answer,
    limits: &[Limit],
    shown: Option<&Arc<LimitHeaders>>,
) -> Response<Reply> {
    let status = if answer.passes() { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let mut body = String::with_capacity(192);
    json::answer(answer, limits, &mut body);
    let mut response = of_json(status, body);
    rate_limit(answer, shown, response.headers_mut());
    response
}

/// `RateLimit`, `RateLimit-Policy` and, on a refusal, `Retry-After`.
pub(crate) fn rate_limit(
    answer: &Answer,
    shown: Option<&Arc<LimitHeaders>>,
    headers: &mut HeaderMap,
) {
    let (Some(shown), Some(decision)) = (shown, &answer.decision) else { return };
    let Some(figures) = Headers::default().figures(shown, decision) else { return };
    figures.write(|field, value| {
        headers.insert(HeaderName::from_static(field.name()), value);
    });
}
