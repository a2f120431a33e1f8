//! Envoy's rate limit request: finds the [limit](DescriptorLimit) of each descriptor, decides on
//! all, and writes statuses and headers.

mod decide;
mod descriptor;
mod reply;

use tonic::Status;

use super::options::Options;
use super::proto::{RateLimitRequest, RateLimitResponse};
use crate::service::{RequestError, RequestErrorKind, Service};

use descriptor::DescriptorLimit;

/// The response to a request.
///
/// # Errors
/// A status and never an empty response: Envoy then follows its setting for errors.
pub(super) async fn answer(
    service: &Service,
    options: &Options,
    request: RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    let limits = descriptor::limits(service, options, &request).map_err(|error| status(&error))?;
    let decisions = decide::all(service, &limits).await.map_err(|error| status(&error))?;
    Ok(reply::response(options, &request.domain, &limits, &decisions))
}

fn status(error: &RequestError) -> Status {
    match error.kind() {
        RequestErrorKind::Invalid => Status::invalid_argument(error.to_string()),
        RequestErrorKind::UnknownRule => Status::not_found(error.to_string()),
        RequestErrorKind::Store => Status::unavailable(error.to_string()),
    }
}
