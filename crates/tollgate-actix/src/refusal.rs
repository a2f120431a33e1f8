//! What a refused request is answered with.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::ContentType;
use actix_web::{HttpResponse, HttpResponseBuilder};
use tollgate_http::{Decider, Gate, Pass};

/// Why a request is refused.
///
/// See the example of [`RateLimit::refuse_with`](crate::RateLimit::refuse_with).
#[non_exhaustive]
pub enum Refusal<'a, D: Decider> {
    /// A limit said no.
    Limited(&'a Pass<D>),
    /// It has no key, and the gate refuses such with this status.
    NoKey(u16),
    /// The store did not answer, and its limiter leaves that to its caller.
    Failed(&'a tollgate::Error),
}

impl<D: Decider> Clone for Refusal<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Decider> Copy for Refusal<'_, D> {}

impl<D: Decider> fmt::Debug for Refusal<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Limited(pass) => f.debug_tuple("Limited").field(pass).finish(),
            Refusal::NoKey(status) => f.debug_tuple("NoKey").field(status).finish(),
            Refusal::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
        }
    }
}

/// The answer where nobody wants another.
pub(crate) fn plain<D: Decider>(gate: &Gate<D>, refusal: Refusal<'_, D>) -> HttpResponse {
    let text = ContentType::plaintext();
    match refusal {
        Refusal::Limited(pass) => {
            let (media_type, body) = gate.refusal_body(pass);
            builder(gate.refusal_status(), StatusCode::TOO_MANY_REQUESTS)
                .content_type(media_type)
                .body(body)
        }
        Refusal::NoKey(status) => builder(status, StatusCode::FORBIDDEN)
            .content_type(text)
            .body("this request does not say who sends it\n"),
        // What went wrong is in the log: it is not the client's business.
        Refusal::Failed(_) => builder(503, StatusCode::SERVICE_UNAVAILABLE)
            .content_type(text)
            .body("the limit of requests cannot be looked up\n"),
    }
}

/// A status that is none must not become a 500 or let a request pass.
fn builder(status: u16, otherwise: StatusCode) -> HttpResponseBuilder {
    HttpResponse::build(StatusCode::from_u16(status).unwrap_or(otherwise))
}
