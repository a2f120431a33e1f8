//! Errors, as `application/problem+json` (RFC 9457).

use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;
use tollgate_http::PROBLEM_JSON;

use super::reply::{Reply, bytes};
use crate::service::{RequestError, RequestErrorKind};

/// A request that failed.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
}

/// The body, with fields in the order in which people read.
#[derive(Serialize)]
struct Object<'a> {
    title: &'a str,
    status: u16,
    detail: &'a str,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into() }
    }

    /// The request is not valid.
    pub(crate) fn wrong(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Writes it as an object in a list of decisions.
    pub(crate) fn json(&self, out: &mut String) {
        let (status, detail) = (self.status.as_u16(), &self.detail[..]);
        let title = self.status.canonical_reason().unwrap_or("error");
        // Texts and a number: JSON holds all of them.
        let object = serde_json::to_string(&Object { title, status, detail });
        out.push_str(&object.unwrap_or_else(|_| "null".to_owned()));
    }

    pub(crate) fn response(&self) -> Response<Reply> {
        let mut body = String::new();
        self.json(&mut body);
        body.push('\n');
        let mut response = bytes(self.status, body.into());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Self {
        let status = match error.kind() {
            RequestErrorKind::Invalid => StatusCode::BAD_REQUEST,
            RequestErrorKind::UnknownRule => StatusCode::NOT_FOUND,
            RequestErrorKind::Store => StatusCode::SERVICE_UNAVAILABLE,
        };
        Problem::new(status, error.to_string())
    }
}
