//! A connection that speaks gRPC: Envoy's rate limit service, over a bare HTTP/2 connection.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use http::{HeaderMap, HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tollgate::{Algorithm, Limit, Policy};
use tonic::Status;

use super::Bench;
use super::failure::Failure;
use super::load::Keys;
use super::wire::Outcome;
use crate::cli::output::with_causes;
use crate::grpc::proto::{
    Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest,
    RateLimitResponse, Unit,
};
use crate::grpc::{SHOULD_RATE_LIMIT, call};

/// The part that all requests of a load have in common.
#[derive(Debug)]
pub(super) struct RequestTemplate {
    uri: Uri,
    headers: HeaderMap,
    domain: String,
    /// The key of the descriptor.
    name: String,
    limit: Option<RateLimitOverride>,
}

impl RequestTemplate {
    /// A limit that starts with a digit is sent with each request. Any other text is the key of a
    /// descriptor for which the server has a rule.
    pub(super) fn new(bench: &Bench) -> Result<RequestTemplate, String> {
        let is_text = bench.limit.trim_start().starts_with(|c: char| c.is_ascii_digit());
        let (name, limit) = match is_text {
            true => ("key".to_owned(), Some(limit_override(&bench.limit)?)),
            false => (bench.limit.clone(), None),
        };
        let uri = format!("http://{}{SHOULD_RATE_LIMIT}", bench.address());
        let uri = uri.parse().map_err(|error| format!("address {uri:?}: {error}"))?;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        if let Some(token) = &bench.token {
            let token = HeaderValue::try_from(format!("Bearer {token}"));
            let token = token.map_err(|_| "token: a header cannot hold its characters")?;
            headers.insert(header::AUTHORIZATION, token);
        }
        Ok(RequestTemplate { uri, headers, domain: bench.domain.clone(), name, limit })
    }

    fn request(&self, key: u64) -> Request<Full<Bytes>> {
        let entry = Entry { key: self.name.clone(), value: format!("key:{key}").into_bytes() };
        let descriptor = RateLimitDescriptor {
            entries: vec![entry],
            limit: self.limit,
            ..RateLimitDescriptor::default()
        };
        let message = RateLimitRequest {
            domain: self.domain.clone(),
            descriptors: vec![descriptor],
            hits_addend: 1,
        };
        let mut request = Request::new(Full::new(call::encode(&message)));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    fn outcome(&self, response: Response<Collected<Bytes>>) -> Outcome {
        let (head, body) = response.into_parts();
        if head.status != http::StatusCode::OK {
            let text = format!("the server answered {}", head.status);
            return Outcome::Error(Failure::new(format!("HTTP {}", head.status.as_u16()), &text));
        }
        let in_trailers = || body.trailers().and_then(Status::from_header_map);
        let status = Status::from_header_map(&head.headers).or_else(in_trailers);
        let status = status.unwrap_or_else(|| Status::unknown("a response without grpc-status"));
        if status.code() != tonic::Code::Ok {
            return Outcome::Error(status_failure(&status));
        }
        let message: RateLimitResponse = match call::decode(&body.to_bytes()) {
            Ok(message) => message,
            Err(status) => return Outcome::Error(status_failure(&status)),
        };
        if message.statuses.first().is_some_and(is_unlimited) {
            let text =
                format!("domain {:?}: no rule limits descriptor {:?}", self.domain, self.name);
            return Outcome::Error(Failure::new("no rule", &text));
        }
        match Code::try_from(message.overall_code) {
            Ok(Code::Ok) => Outcome::Allowed,
            Ok(Code::OverLimit) => Outcome::Denied,
            Ok(Code::Unknown) | Err(_) => {
                let text = format!("overall_code {}: must be 1 or 2", message.overall_code);
                Outcome::Error(Failure::new("invalid response", &text))
            }
        }
    }
}

/// The limit as Envoy's messages have it: a count per unit of time, in fixed windows.
fn limit_override(text: &str) -> Result<RateLimitOverride, String> {
    let policy: Policy = text.parse().map_err(|error| format!("limit {text:?}: {error}"))?;
    let as_override = |limit: &Limit| {
        let plain = Limit::new(limit.quota(), limit.period());
        let fixed = plain.clone().algorithm(Algorithm::FixedWindow);
        let is_plain = [plain, fixed]
            .into_iter()
            .any(|plain| plain.build().is_ok_and(|plain| plain == *limit));
        let unit = Unit::from_period(limit.period());
        let requests_per_unit = u32::try_from(limit.quota()).ok()?;
        (is_plain && unit != Unit::Unknown)
            .then(|| RateLimitOverride { requests_per_unit, unit: unit.into() })
    };
    match policy.limits() {
        [limit] => as_override(limit),
        _ => None,
    }
    .ok_or_else(|| {
        format!(
            "limit {text:?}: over grpc it must be a count per second, minute, hour, day or week, or the key of a descriptor"
        )
    })
}

/// Whether no rule was found. The server then reports no limit and nothing remaining.
fn is_unlimited(status: &DescriptorStatus) -> bool {
    status.code == i32::from(Code::Ok)
        && status.current_limit.is_none()
        && status.limit_remaining == 0
}

fn status_failure(status: &Status) -> Failure {
    Failure::new(format!("gRPC {:?}", status.code()), status.message())
}

#[derive(Debug)]
pub(super) struct Connection {
    requests: SendRequest<Full<Bytes>>,
    template: Arc<RequestTemplate>,
}

impl Connection {
    pub(super) async fn open(
        template: Arc<RequestTemplate>,
        socket: TcpStream,
    ) -> Result<Connection, Failure> {
        let opened = handshake(TokioExecutor::new(), TokioIo::new(socket)).await;
        let (requests, connection) = opened.map_err(|error| http_failure(&template, &error))?;
        // Errors of the connection appear as errors of its requests.
        tokio::spawn(connection);
        Ok(Connection { requests, template })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    /// Sends this many requests together and reads their responses in any order.
    pub(super) async fn ask(
        &mut self,
        bench: &Bench,
        keys: &mut Keys,
        mut see: impl FnMut(Outcome),
    ) -> Result<(), Failure> {
        let calls = (0..bench.depth()).map(|_| {
            let request = self.template.request(keys.next(bench.keys));
            whole(self.requests.send_request(request))
        });
        let mut calls: FuturesUnordered<_> = calls.collect();
        while let Some(response) = calls.next().await {
            let response = response.map_err(|error| http_failure(&self.template, &error))?;
            see(self.template.outcome(response));
        }
        Ok(())
    }
}

async fn whole(
    response: impl Future<Output = hyper::Result<Response<Incoming>>>,
) -> hyper::Result<Response<Collected<Bytes>>> {
    let (head, body) = response.await?.into_parts();
    Ok(Response::from_parts(head, body.collect().await?))
}

fn http_failure(template: &RequestTemplate, error: &hyper::Error) -> Failure {
    let address = template.uri.authority().map_or("", |authority| authority.as_str());
    let text = format!("server {address}: {}; is that the gRPC port?", with_causes(error));
    Failure::new("HTTP/2", &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_count_per_unit_becomes_an_override() {
        let limit = limit_override("1000000/second").unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit()), (1_000_000, Unit::Second));
        assert_eq!(limit_override("5/day fixed-window").unwrap().unit(), Unit::Day);
        for text in ["5/day burst=2", "5/day moving-window", "5/2 hours", "1/day; 2/week", "9/x"] {
            assert!(limit_override(text).unwrap_err().contains(text), "{text}");
        }
        assert!(limit_override("5000000000/day").is_err());
    }
}
