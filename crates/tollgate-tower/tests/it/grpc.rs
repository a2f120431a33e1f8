//! A tonic server and a tonic client. tonic's own types read the refusals.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, BufMut};
use http::uri::PathAndQuery;
use tokio::net::TcpListener;
use tollgate_tower::{Decider, Gate, OnMissing, RateLimitLayer};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status};
use tonic_types::StatusExt;

use crate::flaky::Flaky;
use crate::net::stopped;

/// Messages are plain text: no protobuf is needed to see a status.
#[derive(Clone, Copy, Default)]
struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Text;
    type Decoder = Text;

    fn encoder(&mut self) -> Text {
        Text
    }

    fn decoder(&mut self) -> Text {
        Text
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, item: String, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(item.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// Says hello, and counts.
#[derive(Clone, Default)]
struct Greeter {
    reached: Arc<AtomicUsize>,
}

impl tonic::server::NamedService for Greeter {
    const NAME: &'static str = "test.Greeter";
}

impl tower::Service<http::Request<tonic::body::Body>> for Greeter {
    type Response = http::Response<tonic::body::Body>;
    type Error = std::convert::Infallible;
    type Future = tonic::codegen::BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let reached = Arc::clone(&self.reached);
        let hello = tower::service_fn(move |request: Request<String>| {
            reached.fetch_add(1, Ordering::Relaxed);
            async move { Ok::<_, Status>(Response::new(format!("hello {}", request.get_ref()))) }
        });
        Box::pin(async move { Ok(tonic::server::Grpc::new(Text).unary(hello, request).await) })
    }
}

async fn serve(layer: RateLimitLayer<impl Decider>, greeter: Greeter) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().layer(layer).add_service(greeter);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    address
}

async fn greet(server: SocketAddr) -> Result<Response<String>, Status> {
    let channel =
        Channel::from_shared(format!("http://{server}")).unwrap().connect().await.unwrap();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/test.Greeter/Greet");
    client.unary(Request::new("you".to_owned()), path, Text).await
}

#[tokio::test]
async fn a_refusal_is_resource_exhausted_with_the_time_to_retry() {
    let limiter = stopped().limiter("2/5s name=api").unwrap();
    let greeter = Greeter::default();
    let server = serve(RateLimitLayer::new(limiter.clone()), greeter.clone()).await;
    for _ in 0..2 {
        let hello = greet(server).await.unwrap();
        assert_eq!(hello.get_ref(), "hello you");
        assert!(hello.metadata().contains_key("ratelimit"));
    }
    let refused = greet(server).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::ResourceExhausted, "too many requests"));
    let retry = refused.get_details_retry_info().unwrap();
    assert_eq!(retry.retry_delay, Some(Duration::from_millis(2_500)), "to the microsecond");
    assert_eq!(refused.metadata().get("ratelimit").unwrap(), r#""api";r=0;t=3"#);
    assert_eq!(refused.metadata().get("retry-after").unwrap(), "3");
    assert_eq!(greeter.reached.load(Ordering::Relaxed), 2);
    assert_eq!(limiter.usage("127.0.0.1"), 2, "the peer is the one that tonic knows");
}

#[tokio::test]
async fn a_cost_that_never_fits_has_no_retry_info() {
    let gate = Gate::new(stopped().limiter("2/5s").unwrap()).cost(|_| 3).problem_json();
    let server = serve(RateLimitLayer::from_gate(gate), Greeter::default()).await;
    let refused = greet(server).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "this request costs more than the limit ever allows");
    assert!(refused.get_details_retry_info().is_none());
}

#[tokio::test]
async fn a_store_that_fails_is_unavailable() {
    let store = Flaky::new();
    let server = serve(RateLimitLayer::new(store.limiter("2/day")), Greeter::default()).await;
    assert!(greet(server).await.is_ok());
    store.fail(true);
    let refused = greet(server).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert_eq!(refused.message(), "the rate limiter does not answer");
}

#[tokio::test]
async fn a_request_without_a_key_has_a_code_too() {
    for (status, code) in [(401, Code::Unauthenticated), (400, Code::InvalidArgument)] {
        let gate = Gate::new(stopped().limiter("2/day").unwrap())
            .key(tollgate_tower::KeyBy::header("x-tenant"))
            .on_missing(OnMissing::Refuse(status));
        let server = serve(RateLimitLayer::from_gate(gate), Greeter::default()).await;
        assert_eq!(greet(server).await.unwrap_err().code(), code);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_the_limit_passes_with_concurrent_calls() {
    let greeter = Greeter::default();
    let layer = RateLimitLayer::new(stopped().limiter("20/day").unwrap());
    let server = serve(layer, greeter.clone()).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..60 {
        calls.spawn(greet(server));
    }
    let passed = calls.join_all().await.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!((passed, greeter.reached.load(Ordering::Relaxed)), (20, 20));
}
