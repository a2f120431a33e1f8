//! The response to a refused request.

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use tollgate::Decision;
use tollgate_http::{Decider, Reason, RefusedRequest};

use crate::fields::write_headers;
use crate::rate_limit::RateLimit;

pub(crate) type RefusalFn = dyn Fn(&Refusal<'_>) -> HttpResponse + Send + Sync;

/// A refused request, for which a [function](RateLimit::refusal) words the response.
///
/// ```
/// use actix_web::HttpResponse;
/// use tollgate_actix::{Reason, Refusal};
///
/// fn page(refusal: &Refusal<'_>) -> HttpResponse {
///     let text = match &refusal.reason {
///         Reason::Denied { decision, .. } => format!("<p>Come back in {:?}", decision.retry_after()),
///         _ => "<p>Sorry".to_owned(),
///     };
///     HttpResponse::build(refusal.status).content_type("text/html").body(text)
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Refusal<'a> {
    /// The status that the response has by default.
    pub status: StatusCode,
    /// Why the request is refused.
    pub reason: &'a Reason<'a>,
    /// The request.
    pub request: &'a HttpRequest,
}

/// The standard response to a denied request, for handlers that call a limiter themselves: status
/// 429 with `Retry-After`, `RateLimit` and `RateLimit-Policy`, not to be cached, and a line of
/// text.
///
/// ```
/// use tollgate::Memory;
/// use tollgate_actix::too_many_requests;
///
/// let limiter = Memory::new().limiter("1/minute name=login")?;
/// limiter.hit("alice");
/// let response = too_many_requests(&limiter, &limiter.hit("alice"));
/// assert_eq!(response.status(), 429);
/// assert_eq!(response.headers().get("retry-after").unwrap(), "60");
/// # Ok::<(), tollgate::Error>(())
/// ```
#[must_use]
#[doc(alias = "429")]
pub fn too_many_requests<D: Decider>(limiter: &D, decision: &Decision) -> HttpResponse {
    let (head, body) =
        tollgate_http::too_many_requests::<D, String>(limiter, decision).into_parts();
    let mut response = HttpResponse::TooManyRequests();
    for (name, value) in &head.headers {
        response.append_header((name.as_str(), value.as_bytes()));
    }
    response.body(body)
}

impl<D: Decider> RateLimit<D> {
    /// The response to a refused request.
    pub(crate) fn refuse(
        &self,
        request: &HttpRequest,
        refused: &RefusedRequest<D>,
    ) -> HttpResponse {
        // A number that is no status is a mistake in the settings, and no reason for a 500.
        let status =
            StatusCode::from_u16(refused.status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        let mut response = match &self.refusal {
            Some(own) => own(&Refusal { status, reason: &refused.reason(), request }),
            None => {
                let (media_type, text) = refused.body();
                HttpResponse::build(status).content_type(media_type).body(text)
            }
        };
        let headers = response.headers_mut();
        // RFC 6585: a cache must not answer other requests with it.
        if !headers.contains_key(CACHE_CONTROL) {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        if let Some(figures) = refused.headers() {
            write_headers(figures, headers);
        }
        response
    }
}
