//! Refusals for gRPC: HTTP 200, a status in the headers, and a google.rpc.Status with a
//! google.rpc.RetryInfo for programs.
//!
//! The few bytes of protobuf are written here: a library for them would be larger than this crate.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use tollgate::{base64, leb128};
use tollgate_http::Reason;

const GRPC: &str = "application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

const RESOURCE_EXHAUSTED: u64 = 8;
const UNAVAILABLE: u64 = 14;

/// The media type of the response if the request is gRPC: the one of the request, which may be
/// gRPC-Web.
pub(crate) fn media_type(headers: &HeaderMap, always: bool) -> Option<HeaderValue> {
    let asked =
        headers.get(CONTENT_TYPE).filter(|value| value.as_bytes().starts_with(GRPC.as_bytes()));
    asked.cloned().or_else(|| always.then(|| HeaderValue::from_static(GRPC)))
}

/// A response that consists of headers only. Its message is printable ASCII without a percent sign,
/// so it needs no encoding.
pub(crate) fn refusal(
    media_type: HeaderValue,
    status: StatusCode,
    reason: &Reason<'_>,
) -> Response<()> {
    let message = reason.text().trim_end();
    let (code, message, wait) = match reason {
        Reason::Denied { decision, .. } => {
            let message = match decision.retry_after() {
                Some(_) => "too many requests",
                None => "this request costs more than the limit ever allows",
            };
            (RESOURCE_EXHAUSTED, message, decision.retry_after())
        }
        Reason::StoreFailed(_) => (UNAVAILABLE, message, None),
        _ => (code_of(status), message, None),
    };
    let mut response = Response::new(());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(GRPC_STATUS, HeaderValue::from(code));
    if let Ok(message) = HeaderValue::from_str(message) {
        headers.insert(GRPC_MESSAGE, message);
    }
    if let Some(wait) = wait
        && let Ok(details) = HeaderValue::try_from(encoded(&status_bytes(code, message, wait)))
    {
        headers.insert(DETAILS, details);
    }
    response
}

/// The gRPC code nearest to an HTTP status.
const fn code_of(status: StatusCode) -> u64 {
    const INVALID_ARGUMENT: u64 = 3;
    const PERMISSION_DENIED: u64 = 7;
    const UNAUTHENTICATED: u64 = 16;
    match status.as_u16() {
        401 => UNAUTHENTICATED,
        403 => PERMISSION_DENIED,
        429 => RESOURCE_EXHAUSTED,
        502..=504 => UNAVAILABLE,
        _ => INVALID_ARGUMENT,
    }
}

/// google.rpc.Status { 1 code, 2 message, 3 details: Any { 1 type_url, 2 value: RetryInfo { 1
/// retry_delay: Duration { 1 seconds, 2 nanos } } } }
fn status_bytes(code: u64, message: &str, wait: Duration) -> Vec<u8> {
    let mut delay = Vec::new();
    number(&mut delay, 1, wait.as_secs());
    number(&mut delay, 2, wait.subsec_nanos().into());
    let mut retry_info = Vec::new();
    bytes(&mut retry_info, 1, &delay);
    let mut any = Vec::new();
    bytes(&mut any, 1, RETRY_INFO.as_bytes());
    bytes(&mut any, 2, &retry_info);
    let mut status = Vec::new();
    number(&mut status, 1, code);
    bytes(&mut status, 2, message.as_bytes());
    bytes(&mut status, 3, &any);
    status
}

/// A field that is a number; a missing one means zero.
fn number(out: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        out.push(field << 3);
        leb128::put(value, |byte| out.push(byte));
    }
}

/// A field that is a string, bytes or a message.
fn bytes(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    out.push(field << 3 | 2);
    leb128::put(value.len() as u64, |byte| out.push(byte));
    out.extend_from_slice(value);
}

/// The bytes as the value of a header whose name ends in `-bin`.
fn encoded(bytes: &[u8]) -> Vec<u8> {
    base64::encode(base64::STANDARD, bytes).collect()
}
