//! Reads the body of a request, up to a bound.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};

use super::problem::Problem;

/// The longest body, in bytes: a batch of a thousand requests fits.
const MAX_BODY: usize = 1024 * 1024;

/// Reads a body that arrives within `patience`.
pub(crate) async fn read(body: Incoming, patience: Duration) -> Result<Bytes, Problem> {
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(too_long());
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let collected = tokio::time::timeout(patience, Limited::new(body, MAX_BODY).collect()).await;
    match collected {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_long()),
        Ok(Err(error)) => Err(Problem::wrong(format!("body: {error}"))),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("body: not complete after {patience:?}, which is request_timeout"),
        )),
    }
}

fn too_long() -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("body: longer than {MAX_BODY} bytes, which is the most that is read"),
    )
}
