//! A gRPC service that refuses requests with `RESOURCE_EXHAUSTED` and a `RetryInfo`.
//!
//! ```sh
//! cargo run -p tollgate-tower --features tonic --example tonic
//! ```
//!
//! Messages are plain text here, so that no protobuf compiler is needed. The program serves on a
//! free port, calls itself, and ends.

use std::convert::Infallible;
use std::error::Error;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut};
use http::uri::PathAndQuery;
use tokio::net::TcpListener;
use tollgate::Memory;
use tollgate_tower::RateLimitLayer;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};
use tonic_types::StatusExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let limiter = Memory::new().limiter("3/minute name=greetings")?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = Server::builder().layer(RateLimitLayer::new(limiter)).add_service(Greeter);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let channel = Channel::from_shared(format!("http://{address}"))?.connect().await?;
    let mut client = tonic::client::Grpc::new(channel);
    for _ in 0..5 {
        client.ready().await?;
        let path = PathAndQuery::from_static("/example.Greeter/Greet");
        match client.unary(Request::new("you".to_owned()), path, Text).await {
            Ok(answer) => {
                println!(
                    "{}; ratelimit: {:?}",
                    answer.get_ref(),
                    answer.metadata().get("ratelimit")
                );
            }
            Err(status) => {
                let retry = status.get_details_retry_info().and_then(|info| info.retry_delay);
                println!("{:?}: {}; retry in {retry:?}", status.code(), status.message());
            }
        }
    }
    Ok(())
}

/// Stands for a generated service.
#[derive(Clone)]
struct Greeter;

impl tonic::server::NamedService for Greeter {
    const NAME: &'static str = "example.Greeter";
}

impl tower::Service<http::Request<tonic::body::Body>> for Greeter {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = tonic::codegen::BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let greet = tower::service_fn(|request: Request<String>| async move {
            Ok::<_, Status>(Response::new(format!("hello {}", request.get_ref())))
        });
        Box::pin(async move { Ok(tonic::server::Grpc::new(Text).unary(greet, request).await) })
    }
}

/// Messages as plain text.
#[derive(Clone, Copy)]
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

    fn encode(&mut self, text: String, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = from.copy_to_bytes(from.remaining()).to_vec();
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|_| Status::invalid_argument("text that is not UTF-8"))
    }
}
