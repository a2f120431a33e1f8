//! Envoy's rate limit request: finds the [limit](DescriptorLimit) of each descriptor, decides on
//! all, and writes statuses and headers.

mod decide;
mod descriptor;
mod receipts;
mod reply;

use http::HeaderMap;
use prost_types::Struct;
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
    headers: &HeaderMap,
    request: RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    let limits = descriptor::limits(service, options, &request).map_err(|error| status(&error))?;
    let given = receipts::given(headers, &request).map_err(|error| status(&error))?;
    let (decisions, ignored) = match given {
        None => (decide::all(service, &limits).await, Vec::new()),
        Some(given) => match receipts::refund(service, &limits, &given).await {
            Ok((decision, ignored)) => (Ok(vec![Some(decision)]), ignored),
            Err(error) => (Err(error), Vec::new()),
        },
    };
    let decisions = decisions.map_err(|error| status(&error))?;
    let mut response = reply::response(options, &request.domain, &limits, &decisions);
    if receipts::are_asked_for(headers) || !ignored.is_empty() {
        let metadata = response.dynamic_metadata.get_or_insert_with(Struct::default);
        receipts::describe(&limits, &decisions, &ignored, metadata);
    }
    Ok(response)
}

fn status(error: &RequestError) -> Status {
    match error.kind() {
        RequestErrorKind::Invalid => Status::invalid_argument(error.to_string()),
        RequestErrorKind::UnknownRule => Status::not_found(error.to_string()),
        RequestErrorKind::Store => Status::unavailable(error.to_string()),
    }
}
