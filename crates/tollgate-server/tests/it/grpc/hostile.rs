//! Bytes that no correct client sends. The connection may end, the server must continue.

use super::*;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_server::observe::Protocol;
use tonic::codegen::http::{self as http, Response};

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

async fn server() -> Server {
    let options =
        Options { patience: Duration::from_millis(200), max_message: 1_000, ..Options::default() };
    Server::with(vec![each("user", "1000/day")], options).await
}

/// Correct clients are served.
async fn still_answers(server: &Server) {
    assert!(server.client().await.left(on([("user", "a")])).await.0);
}

/// Sends a request over HTTP/2 with any contents.
async fn send<B>(
    server: &Server,
    build: impl FnOnce(http::request::Builder) -> http::Request<B>,
) -> Response<hyper::body::Incoming>
where
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = TokioIo::new(TcpStream::connect(server.address).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::post(format!("http://{}{PATH}", server.address));
    sender.send_request(build(request.header("content-type", "application/grpc"))).await.unwrap()
}

/// The gRPC status of the answer to a body, in the headers or in the trailers.
async fn status(server: &Server, body: Vec<u8>) -> String {
    let response =
        send(server, |request| request.body(Full::new(Bytes::from(body))).unwrap()).await;
    let early = response.headers().get("grpc-status").cloned();
    let late = response
        .into_body()
        .collect()
        .await
        .unwrap()
        .trailers()
        .and_then(|t| t.get("grpc-status").cloned());
    early.or(late).unwrap().to_str().unwrap().to_owned()
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, message].concat()
}

#[tokio::test]
async fn invalid_frames_get_a_status() {
    let server = server().await;
    let honest = request([on([("user", "a")])]).encode_to_vec();
    let code = |code: tonic::Code| (code as i32).to_string();
    let wrong = code(tonic::Code::InvalidArgument);
    assert_eq!(status(&server, framed(&honest)).await, "0");
    let short = framed(&honest)[..20].to_vec();
    let mut longer = framed(&honest);
    longer.push(0);
    let mut compressed = framed(&honest);
    compressed[0] = 1;
    let not_utf8 = framed(&[10, 2, 0xff, 0xfe]);
    for (body, expected) in [
        (Vec::new(), wrong.clone()),
        (vec![0, 0], wrong.clone()),
        (short, wrong.clone()),
        (longer, wrong.clone()),
        (framed(&[]), wrong.clone()),
        (framed(&[0xff; 20]), wrong.clone()),
        (not_utf8, wrong.clone()),
        (vec![0, 0xff, 0xff, 0xff, 0xff], wrong.clone()),
        (compressed, code(tonic::Code::Unimplemented)),
        (framed(&vec![0; 1_001]), code(tonic::Code::ResourceExhausted)),
        (framed(&vec![0; 10_000_000]), code(tonic::Code::ResourceExhausted)),
    ] {
        assert_eq!(
            status(&server, body.clone()).await,
            expected,
            "{:?}",
            &body[..body.len().min(30)]
        );
    }
    still_answers(&server).await;
}

/// A proxy may let a request pass without a decision, and its values are headers of clients.
#[tokio::test]
async fn values_of_any_size_and_bytes_get_a_decision() {
    let server = Server::start(vec![each("user", "1/day")]).await;
    let mut client = server.client().await;
    let of = |value: Vec<u8>| {
        let mut descriptor = on([("user", "")]);
        descriptor.entries[0].value = value;
        descriptor
    };
    for value in [vec![b'x'; 4_000_000], vec![0xff], vec![0xfe], vec![0xff, 0xff]] {
        assert_eq!(client.left(of(value.clone())).await, (true, 0), "{:?}", value.first());
        assert_eq!(client.left(of(value)).await, (false, 0));
    }
}

#[tokio::test]
async fn a_rejected_message_is_counted() {
    let server = server().await;
    let wrong = || server.service.observer().port(Protocol::Grpc).counts().3;
    status(&server, framed(&vec![0; 1_001])).await;
    assert_eq!(wrong(), 1);
    status(&server, framed(&[0xff; 20])).await;
    assert_eq!(wrong(), 2);
}

#[tokio::test]
async fn a_message_in_pieces_is_accepted() {
    let server = server().await;
    let body = framed(&request([on([("user", "a")])]).encode_to_vec());
    let pieces = body
        .chunks(3)
        .map(|piece| Ok::<_, std::io::Error>(Frame::data(Bytes::copy_from_slice(piece))));
    let pieces: Vec<_> = pieces.collect();
    let stream = tonic::codegen::tokio_stream::iter(pieces);
    let response = send(&server, |request| request.body(StreamBody::new(stream)).unwrap()).await;
    let body = response.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn an_unfinished_message_is_dropped() {
    let server = server().await;
    let stream = tonic::codegen::tokio_stream::pending::<Result<Frame<Bytes>, std::io::Error>>();
    let response = send(&server, |request| request.body(StreamBody::new(stream)).unwrap()).await;
    assert_eq!(response.headers()["grpc-status"], "4");
}

#[tokio::test]
async fn a_silent_client_or_half_a_preface_is_closed() {
    let server = server().await;
    for begin in [&b""[..], b"PRI * HT"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(begin).await.unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).await.unwrap();
        assert!(said.is_empty());
    }
    still_answers(&server).await;
}

#[tokio::test]
async fn an_http_1_client_learns_that_the_port_speaks_grpc() {
    let server = server().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut said = vec![0; 12];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(said, b"HTTP/1.1 505");
}

#[tokio::test]
async fn other_paths_methods_and_types_are_rejected_with_a_reason() {
    let server = server().await;
    let empty = || Full::new(Bytes::new());
    let ask = async |build: fn(http::request::Builder) -> http::request::Builder| {
        send(&server, |request| build(request).body(empty()).unwrap()).await
    };
    let other = ask(|request| {
        request.uri("http://x/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit")
    })
    .await;
    assert_eq!(other.headers()["grpc-status"], "12");
    let get = ask(|request| request.method("GET")).await;
    assert!(get.headers().contains_key("grpc-status") || !get.status().is_success());
    let stream = TokioIo::new(TcpStream::connect(server.address).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let json =
        http::Request::post(format!("http://x{PATH}")).header("content-type", "application/json");
    let response = sender.send_request(json.body(empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 415);
    still_answers(&server).await;
}

#[tokio::test]
async fn random_bytes_end_the_connection_and_nothing_else() {
    let server = server().await;
    // A local generator gives the same bytes in every run.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    for round in 0..200 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let begin: &[u8] = if round % 2 == 0 {
            b""
        } else {
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"
        };
        let noise: Vec<u8> = (0..200).map(|_| byte()).collect();
        let _ = stream.write_all(&[begin, &noise].concat()).await;
        let _ = stream.shutdown().await;
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said).await;
    }
    still_answers(&server).await;
}

#[tokio::test]
async fn endless_headers_are_refused() {
    let server = server().await;
    let stream = TokioIo::new(TcpStream::connect(server.address).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let mut request = http::Request::post(format!("http://x{PATH}"));
    for index in 0..200 {
        request = request.header(format!("x-{index}"), "x".repeat(200));
    }
    let answer = sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await;
    assert!(!answer.is_ok_and(|response| response.status().is_success()));
    still_answers(&server).await;
}
