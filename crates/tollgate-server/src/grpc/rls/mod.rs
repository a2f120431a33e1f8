//! Envoy's question, put to the rules: each descriptor becomes a [`Question`], all are asked, and
//! the answers become statuses and headers.

mod ask;
mod question;
mod reply;

use tonic::Status;

use super::options::Options;
use super::proto::{RateLimitRequest, RateLimitResponse};
use crate::service::{RequestError, RequestErrorKind, Service};

use question::Question;

/// The answer to a request.
///
/// # Errors
/// A status, never an answer that says nothing: Envoy then does what it is told to do on errors.
pub(super) async fn answer(
    service: &Service,
    options: &Options,
    request: RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    let questions = question::all(service, options, &request).map_err(|error| status(&error))?;
    let answers = ask::all(service, &questions).await.map_err(|error| status(&error))?;
    Ok(reply::of(options, &request.domain, &questions, &answers))
}

fn status(error: &RequestError) -> Status {
    match error.kind() {
        RequestErrorKind::Invalid => Status::invalid_argument(error.to_string()),
        RequestErrorKind::UnknownRule => Status::not_found(error.to_string()),
        RequestErrorKind::Store => Status::unavailable(error.to_string()),
    }
}
