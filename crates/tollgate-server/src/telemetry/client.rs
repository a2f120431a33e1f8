//! Sends traces with hyper, which the server uses anyway, instead of one more HTTP client.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

/// The most bytes of a collector's answer that are read.
const MAX_ANSWER: usize = 64 * 1024;

/// How long a collector may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends on the runtime of the server, while the exporter's thread waits.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    runtime: Handle,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Sender {
    pub(super) fn new(runtime: Handle) -> Sender {
        Sender { runtime, client: Client::builder(TokioExecutor::new()).build_http() }
    }
}

#[tonic::async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = async move {
            let response = client.request(request.map(Full::new)).await?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        };
        // The timer belongs to the runtime too, and this thread is not part of the runtime.
        self.runtime.spawn(async move { tokio::time::timeout(TIMEOUT, sent).await }).await??
    }
}
