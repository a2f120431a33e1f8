//! The response to a request that a handler has denied itself.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response, StatusCode};
use tollgate::Decision;

use crate::decider::Decider;
use crate::header_figures::LimitHeaders;
use crate::headers::Headers;

/// The standard response to a denied request, for handlers that call a limiter themselves: status
/// 429 with `Retry-After`, `RateLimit` and `RateLimit-Policy`, not to be cached, and a line of
/// text.
///
/// ```
/// use http::Response;
/// use tollgate::Memory;
/// use tollgate_http::too_many_requests;
///
/// let limiter = Memory::new().limiter("1/minute name=login")?;
/// limiter.hit("alice");
/// let decision = limiter.hit("alice");
/// assert!(!decision.allowed());
/// let response: Response<String> = too_many_requests(&limiter, &decision);
/// assert_eq!(response.status(), 429);
/// assert_eq!(response.headers()["retry-after"], "60");
/// assert_eq!(response.body(), "too many requests: come back in 60 s\n");
/// # Ok::<(), tollgate::Error>(())
/// ```
#[must_use]
#[doc(alias = "429")]
pub fn too_many_requests<D: Decider, B: From<String>>(
    limiter: &D,
    decision: &Decision,
) -> Response<B> {
    let mut response = Response::new(B::from(text(decision)));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let limits = Arc::new(LimitHeaders::new(limiter.limits()));
    if let Some(figures) = Headers::default().figures(&limits, decision) {
        figures.write(|field, value| {
            headers.insert(HeaderName::from_static(field.name()), value);
        });
    }
    response
}

/// A line for the client.
pub(crate) fn text(decision: &Decision) -> String {
    match decision.headline().retry_after() {
        Some(wait) => {
            let seconds = tollgate::seconds_up(wait).max(1);
            if decision.banned() {
                return format!("banned after too many denials: come back in {seconds} s\n");
            }
            format!("too many requests: come back in {seconds} s\n")
        }
        None => "too much for one request: it costs more than the limit ever allows\n".into(),
    }
}
