//! What a client gets that does not pass.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};
use tollgate_http::{Decider, Head, Pass, Reason};

use crate::body::Body;
use crate::grpc;
use crate::headers::write_headers;
use crate::layer::RateLimitLayer;
use crate::peer::{head_of, peer_of};

pub(crate) type RefusalFn = dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync;

/// A refusal that is to be put into words.
///
/// ```
/// use http::header::CONTENT_TYPE;
/// use tollgate_tower::{Reason, Refusal};
///
/// fn page(refusal: &Refusal<'_>) -> http::Response<String> {
///     let text = match &refusal.reason {
///         Reason::Denied { decision, .. } => format!("<p>Come back in {:?}", decision.retry_after()),
///         _ => "<p>Sorry".to_owned(),
///     };
///     let mut response = http::Response::new(text);
///     *response.status_mut() = refusal.status;
///     response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/html"));
///     response
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
    pub head: &'a Head<'a>,
}

impl<D: Decider> RateLimitLayer<D> {
    /// The refusal of a request that costs too much.
    pub(crate) fn refuse_denied<B, R>(
        &self,
        request: &mut Request<B>,
        pass: &Pass<D>,
    ) -> Response<Body<R>> {
        let reason = Reason::denied(pass);
        let (media_type, text) = self.gate.refusal_body(pass);
        let status = self.gate.refusal_status();
        let mut response = self.answer(request, status, &reason, media_type, text);
        if let Some(told) = self.gate.told(pass) {
            write_headers(&told, response.headers_mut());
        }
        response
    }

    /// The refusal of a request that nobody decided on.
    pub(crate) fn refuse<B, R>(
        &self,
        request: &mut Request<B>,
        status: u16,
        reason: &Reason<'_>,
    ) -> Response<Body<R>> {
        let text = reason.text().to_owned();
        self.answer(request, status, reason, "text/plain; charset=utf-8", text)
    }

    fn answer<B, R>(
        &self,
        request: &mut Request<B>,
        status: u16,
        reason: &Reason<'_>,
        media_type: &'static str,
        text: String,
    ) -> Response<Body<R>> {
        // A number that is no status is a slip in the settings, and no reason for a 500.
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        let mut response = if let Some(own) = &self.refusal {
            let head = &head_of(peer_of(request), request);
            own(&Refusal { status, reason, head }).map(Body::text)
        } else if let Some(media_type) = grpc::media_type(request.headers(), self.always_grpc) {
            grpc::refusal(media_type, status, reason, text.trim_end()).map(|()| Body::default())
        } else {
            let mut response = Response::new(Body::text(text.into()));
            *response.status_mut() = status;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            response
        };
        // RFC 6585: a refusal is for this request, and for no other that a cache might answer.
        let headers = response.headers_mut();
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }
}
