//! A connection to the HTTP port or to the admin port of a server.

use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use http::request::Builder;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::output::with_causes;

/// The certificates of both ends.
#[derive(Args, Clone, Debug)]
pub(super) struct Certificates {
    /// A file with the CA certificates to trust for the server, PEM, instead of those of the system
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CA")]
    ca: Option<PathBuf>,

    /// A file with a client certificate, PEM; needs --key
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CERT", requires = "client_key")]
    cert: Option<PathBuf>,

    /// The private key of the client certificate, PEM
    #[arg(long = "key", value_name = "FILE", env = "TOLLGATE_KEY", requires = "cert")]
    client_key: Option<PathBuf>,
}

/// A port of a server, and what it asks of clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    /// The URL as the user wrote it.
    pub(super) url: &'a str,
    pub(super) token: Option<&'a str>,
    pub(super) certificates: &'a Certificates,
    /// The name of the port that should answer there, for errors.
    pub(super) port: &'static str,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Client {
    requests: SendRequest<Full<Bytes>>,
    /// The URL of the server, for error messages.
    url: String,
    port: &'static str,
    host: String,
    token: Option<String>,
}

impl Client {
    /// Connects to `http://host:port` or `https://host:port`.
    pub(super) async fn connect(target: Target<'_>) -> Result<Client, Box<dyn Error>> {
        let Target { url, token, certificates, port } = target;
        let wrong = |why: &str| {
            format!("server {url:?}: {why}; expected http://host:port or https://host:port")
        };
        let uri: Uri = url.parse().map_err(|error| wrong(&format!("{error}")))?;
        let host = uri.host().ok_or_else(|| wrong("no host"))?.to_owned();
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("unknown scheme").into()),
        };
        if !secure && certificates.cert.is_some() {
            return Err(wrong("a certificate can only be shown over https").into());
        }
        let number = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let bare = host.trim_matches(['[', ']']).to_owned();
        let socket = TcpStream::connect((&bare[..], number)).await;
        let socket = socket.map_err(|error| {
            let hint = match error.kind() {
                ErrorKind::ConnectionRefused => "; is the server running?",
                _ => "",
            };
            format!("server {url:?}: {error}{hint}")
        })?;
        socket.set_nodelay(true)?;
        let requests = if secure {
            let name = ServerName::try_from(bare)?;
            let connector = TlsConnector::from(Arc::new(tls(certificates)?));
            let tls = connector.connect(name, socket).await;
            spawned(tls.map_err(|error| no_tls(url, &error))?).await?
        } else {
            spawned(socket).await?
        };
        let (url, token) = (url.to_owned(), token.map(str::to_owned));
        Ok(Client { requests, url, port, host: format!("{host}:{number}"), token })
    }

    /// Sends a request with a body and reads the whole response.
    pub(super) async fn post(
        &mut self,
        path: &str,
        body: String,
    ) -> Result<Response<Bytes>, Box<dyn Error>> {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        let response = self.send(request, body).await?;
        self.whole(response).await
    }

    /// Sends a request without a body and reads the whole response.
    pub(super) async fn get(&mut self, path: &str) -> Result<Response<Bytes>, Box<dyn Error>> {
        let response = self.begin(path).await?;
        self.whole(response).await
    }

    /// Sends a request without a body, and returns the response before its body.
    pub(super) async fn begin(&mut self, path: &str) -> Result<Response<Incoming>, Box<dyn Error>> {
        self.send(Request::get(path), String::new()).await
    }

    /// Reads the rest of a response.
    pub(super) async fn whole(
        &self,
        response: Response<Incoming>,
    ) -> Result<Response<Bytes>, Box<dyn Error>> {
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|error| self.no_answer(&error))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    async fn send(
        &mut self,
        request: Builder,
        body: String,
    ) -> Result<Response<Incoming>, Box<dyn Error>> {
        let mut request = request.header(header::HOST, &self.host);
        if let Some(token) = &self.token {
            let mut token = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| "token: has a character that no header can carry")?;
            token.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let answer = self.requests.send_request(request).await;
        answer.map_err(|error| self.no_answer(&error).into())
    }

    /// The most likely cause of an HTTP error: the port speaks another protocol, or expects TLS.
    pub(super) fn no_answer(&self, error: &hyper::Error) -> String {
        let Client { url, port, .. } = self;
        if error.is_parse() {
            return format!(
                "server {url:?}: the answer is not HTTP; is this {port}, and should the URL begin with https?"
            );
        }
        if error.is_incomplete_message() || error.is_canceled() {
            return format!(
                "server {url:?}: the connection was closed without an answer; is this {port}, and does it expect https or a client certificate (--cert)?"
            );
        }
        format!("server {url:?}: {}", with_causes(error))
    }
}

async fn spawned<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, Box<dyn Error>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (requests, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(requests)
}

fn no_tls(url: &str, error: &std::io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let hung_up = error.kind() == ErrorKind::UnexpectedEof;
    if hung_up || matches!(cause, Some(rustls::Error::InvalidMessage(_))) {
        return format!("server {url:?}: the answer is not TLS; should the URL begin with http?");
    }
    format!("server {url:?}: {error}")
}

/// The TLS settings: which servers to trust, and the client certificate.
fn tls(certificates: &Certificates) -> Result<ClientConfig, Box<dyn Error>> {
    let Certificates { ca, cert, client_key } = certificates;
    let config = trusting(ca.as_deref())?;
    let (Some(cert), Some(key)) = (cert, client_key) else {
        return Ok(config.with_no_client_auth());
    };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| in_file(key, &error))?;
    Ok(config.with_client_auth_cert(read_certificates(cert)?, private)?)
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match all {
        Ok(all) if all.is_empty() => Err(format!("{}: no certificate in it", path.display())),
        all => all.map_err(|error| in_file(path, &error)),
    }
}

fn in_file(path: &Path, error: &rustls::pki_types::pem::Error) -> String {
    format!("{}: {error}", path.display())
}

fn trusting(
    ca: Option<&Path>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in read_certificates(path)? {
                roots.add(certificate)?;
            }
        }
        None => {
            for certificate in rustls_native_certs::load_native_certs().certs {
                roots.add(certificate)?;
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots))
}
