//! Envoy's question, put to the rules: each descriptor becomes a [`Question`], all are asked, and the answers become statuses and headers.

mod ask;
mod question;
mod reply;

use tonic::Status;

use super::options::Options;
use super::proto::{RateLimitRequest, RateLimitResponse};
use crate::service::{Refusal, RefusalKind, Service};

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
    let questions =
        question::all(service, options, &request).map_err(|refusal| status(&refusal))?;
    let answers = ask::all(service, &questions).await.map_err(|refusal| status(&refusal))?;
    Ok(reply::of(options, &request.domain, &questions, &answers))
}

fn status(refusal: &Refusal) -> Status {
    match refusal.kind() {
        RefusalKind::Wrong => Status::invalid_argument(refusal.to_string()),
        RefusalKind::Unknown => Status::not_found(refusal.to_string()),
        RefusalKind::Store => Status::unavailable(refusal.to_string()),
    }
}
