//! What a client gets that does not pass.

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use tollgate_http::{Decider, Pass, Reason};

use crate::fields::tell;
use crate::rate_limit::RateLimit;
use tollgate::Decision;

pub(crate) type RefusalFn = dyn Fn(&Refusal<'_>) -> HttpResponse + Send + Sync;

/// A refusal that is to be put into words.
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
    /// The status that it would have.
    pub status: StatusCode,
    /// Why.
    pub reason: &'a Reason<'a>,
    /// What is refused.
    pub request: &'a HttpRequest,
}

/// The standard response to a denied request, for handlers that ask a limiter themselves: status
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
pub fn too_many_requests<D: Decider>(limiter: &D, outcomes: &Decision) -> HttpResponse {
    let (head, body) =
        tollgate_http::too_many_requests::<D, String>(limiter, outcomes).into_parts();
    let mut response = HttpResponse::TooManyRequests();
    for (name, value) in &head.headers {
        response.append_header((name.as_str(), value.as_bytes()));
    }
    response.body(body)
}

impl<D: Decider> RateLimit<D> {
    /// The refusal of a request that costs too much.
    pub(crate) fn refuse_denied(&self, request: &HttpRequest, pass: &Pass<D>) -> HttpResponse {
        let reason = Reason::denied(pass);
        let (media_type, text) = self.gate.refusal_body(pass);
        let status = self.gate.refusal_status();
        let mut response = self.answer(request, status, &reason, media_type, text);
        tell(&self.gate, pass, response.headers_mut());
        response
    }

    /// The refusal of a request that nobody decided on.
    pub(crate) fn refuse(
        &self,
        request: &HttpRequest,
        status: u16,
        reason: &Reason<'_>,
    ) -> HttpResponse {
        let text = reason.text().to_owned();
        self.answer(request, status, reason, "text/plain; charset=utf-8", text)
    }

    fn answer(
        &self,
        request: &HttpRequest,
        status: u16,
        reason: &Reason<'_>,
        media_type: &'static str,
        text: String,
    ) -> HttpResponse {
        // A number that is no status is a slip in the settings, and no reason for a 500.
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        let mut response = match &self.refusal {
            Some(own) => own(&Refusal { status, reason, request }),
            None => HttpResponse::build(status).content_type(media_type).body(text),
        };
        // RFC 6585: a refusal is for this request, and for no other that a cache might answer.
        let headers = response.headers_mut();
        if !headers.contains_key(CACHE_CONTROL) {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        response
    }
}
