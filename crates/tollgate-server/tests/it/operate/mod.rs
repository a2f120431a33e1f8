//! TLS, tokens, bounds, the log, traces and shutdown, on every port of the real binary.

mod auth;
mod beyond;
mod bounds;
mod drain;
mod local;
mod log;
mod packaging;
mod ready;
mod tls;
mod traces;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_server::grpc::proto::{Entry, RateLimitDescriptor, RateLimitRequest};
use tollgate_testservers::{Certificates, eventually, free_port};

use crate::server::Server;

/// An HTTP request.
const HIT: &str = "POST /v1/hit?limit=1000000/day&key=somebody HTTP/1.1\r\nhost: x\r\n";

impl Server {
    /// Every port answers a correct client.
    async fn answers(&self, tls: Option<&Arc<ClientConfig>>, token: Option<&str>) {
        for (port, address) in self.ports() {
            let answer = ask(port, address, tls, token).await;
            assert_eq!(answer.as_deref(), Ok("answered"), "{port}");
        }
    }
}

/// A connection with or without TLS.
trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

async fn connect(
    address: SocketAddr,
    tls: Option<&Arc<ClientConfig>>,
) -> std::io::Result<Box<dyn Io>> {
    let socket = TcpStream::connect(address).await?;
    let Some(config) = tls else { return Ok(Box::new(socket)) };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::clone(config));
    Ok(Box::new(connector.connect(name, socket).await?))
}

/// The trusted certificates and the certificate of a client.
fn trusting(certificates: &Certificates, shows: bool, protocols: &[&str]) -> Arc<ClientConfig> {
    let pem = |name: &str| CertificateDer::from_pem_file(certificates.file(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(pem("ca.crt")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = if shows {
        let key = PrivateKeyDer::from_pem_file(certificates.file("client.key")).unwrap();
        config.with_client_auth_cert(vec![pem("client.crt")], key).unwrap()
    } else {
        config.with_no_client_auth()
    };
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// Sends one valid request to any port. Returns `answered`, `unauthorized`, or the error.
async fn ask(
    port: &str,
    address: SocketAddr,
    tls: Option<&Arc<ClientConfig>>,
    token: Option<&str>,
) -> Result<String, String> {
    let gone = |error: std::io::Error| format!("gone: {error}");
    let io = connect(address, tls).await.map_err(gone)?;
    match port {
        "grpc" => {
            let answer = grpc(io, SHOULD_RATE_LIMIT, question(), token).await?;
            Ok(match &answer[..] {
                "0" => "answered".to_owned(),
                "16" => "unauthorized".to_owned(),
                other => other.to_owned(),
            })
        }
        "resp" => {
            let auth = token.map_or_else(String::new, |token| format!("AUTH {token}\r\n"));
            let commands = format!("{auth}CL.THROTTLE a 1 1 1\r\nQUIT\r\n");
            let said = exchange(io, &commands).await.map_err(gone)?;
            Ok(if said.contains("*5\r\n") {
                "answered".to_owned()
            } else if said.contains("-NOAUTH") {
                "unauthorized".to_owned()
            } else {
                format!("gone: {said:?}")
            })
        }
        _ => {
            let head = if port == "http" { HIT } else { "GET /metrics HTTP/1.1\r\nhost: x\r\n" };
            let auth = token
                .map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
            let request = format!("{head}{auth}connection: close\r\n\r\n");
            let said = exchange(io, &request).await.map_err(gone)?;
            Ok(match said.split(' ').nth(1) {
                Some("200") => "answered".to_owned(),
                Some("401") if said.contains("www-authenticate: Bearer ") => {
                    "unauthorized".to_owned()
                }
                _ => format!("gone: {said:?}"),
            })
        }
    }
}

/// Sends a text and reads until the other side closes the connection.
async fn exchange(mut io: Box<dyn Io>, text: &str) -> std::io::Result<String> {
    io.write_all(text.as_bytes()).await?;
    io.flush().await?;
    let mut said = Vec::new();
    match io.read_to_end(&mut said).await {
        // Answered, and closed without TLS's close_notify.
        Err(error) if said.is_empty() => Err(error),
        _ => Ok(String::from_utf8_lossy(&said).into_owned()),
    }
}

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

fn question() -> Vec<u8> {
    let entry = Entry { key: "user".to_owned(), value: "somebody".into() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
    let request = RateLimitRequest {
        domain: "shop".to_owned(),
        descriptors: vec![descriptor],
        ..RateLimitRequest::default()
    };
    request.encode_to_vec()
}

/// The gRPC status of a call.
async fn grpc(
    io: Box<dyn Io>,
    path: &str,
    message: Vec<u8>,
    token: Option<&str>,
) -> Result<String, String> {
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io))
            .await
            .map_err(|error| format!("gone: {error}"))?;
    let talk = tokio::spawn(connection);
    let answer = call(&mut sender, path, message, token).await;
    drop(sender);
    talk.abort();
    answer
}

type Sender = hyper::client::conn::http2::SendRequest<Full<Bytes>>;

async fn call(
    sender: &mut Sender,
    path: &str,
    message: Vec<u8>,
    token: Option<&str>,
) -> Result<String, String> {
    let gone = |error: hyper::Error| format!("gone: {error}");
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let framed = [&[0][..], &length, &message].concat();
    let mut request = http::Request::post(format!("http://x{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from(framed))).unwrap();
    sender.ready().await.map_err(gone)?;
    let response = sender.send_request(request).await.map_err(gone)?;
    let early = response.headers().get("grpc-status").cloned();
    let body = response.into_body().collect().await.map_err(gone)?;
    let late = body.trailers().and_then(|trailers| trailers.get("grpc-status").cloned());
    let status = early.or(late).ok_or("no status")?;
    Ok(status.to_str().unwrap().to_owned())
}

/// Runs the binary to its end: its exit code and its outputs.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}
