//! The response to a refused request.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};
use tollgate_http::{Decider, Head, Reason, RefusedRequest};

use crate::body::Body;
use crate::grpc;
use crate::headers::write_headers;
use crate::layer::RateLimitLayer;
use crate::peer::{head_of, peer_of};

pub(crate) type RefusalFn = dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync;

/// A refused request, for which a [function](RateLimitLayer::refusal) words the response.
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
    /// The status that the response has by default.
    pub status: StatusCode,
    /// Why the request is refused.
    pub reason: &'a Reason<'a>,
    /// The request.
    pub head: &'a Head<'a>,
}

impl<D: Decider> RateLimitLayer<D> {
    /// The response to a refused request.
    #[inline(never)]
    pub(crate) fn refuse<B, R>(
        &self,
        request: &mut Request<B>,
        refused: &RefusedRequest<D>,
    ) -> Response<Body<R>> {
        // A number that is no status is a mistake in the settings, and no reason for a 500.
        let status =
            StatusCode::from_u16(refused.status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        let reason = &refused.reason();
        let mut response = if let Some(own) = &self.refusal {
            let head = &head_of(peer_of(request), request);
            own(&Refusal { status, reason, head }).map(Body::text)
        } else if let Some(media_type) = grpc::media_type(request.headers(), self.always_grpc) {
            grpc::refusal(media_type, status, reason).map(|()| Body::default())
        } else {
            let (media_type, text) = refused.body();
            let mut response = Response::new(Body::text(text.into()));
            *response.status_mut() = status;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            response
        };
        let headers = response.headers_mut();
        // RFC 6585: a cache must not answer other requests with it.
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        if let Some(figures) = refused.headers() {
            write_headers(figures, headers);
        }
        response
    }
}
