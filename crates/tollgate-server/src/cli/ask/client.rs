//! A connection to the HTTP port of a server.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::To;
use crate::cli::output::with_causes;

/// One connection.
#[derive(Debug)]
pub(super) struct Client {
    requests: SendRequest<Full<Bytes>>,
    /// The URL as the user wrote it, for errors.
    url: String,
    host: String,
    token: Option<String>,
}

impl Client {
    /// Connects to `http://host:port` or `https://host:port`.
    pub(super) async fn connect(to: &To) -> Result<Client, Box<dyn Error>> {
        let url = &to.server[..];
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
        if !secure && to.cert.is_some() {
            return Err(wrong("a certificate can only be shown over https").into());
        }
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let bare = host.trim_matches(['[', ']']).to_owned();
        let socket = TcpStream::connect((&bare[..], port)).await;
        let socket = socket.map_err(|error| format!("server {url:?}: {error}"))?;
        socket.set_nodelay(true)?;
        let requests = if secure {
            let name = ServerName::try_from(bare)?;
            let tls = TlsConnector::from(Arc::new(tls(to)?)).connect(name, socket).await;
            spawned(tls.map_err(|error| no_tls(url, &error))?).await?
        } else {
            spawned(socket).await?
        };
        let (url, token) = (url.to_owned(), to.token.clone());
        Ok(Client { requests, url, host: format!("{host}:{port}"), token })
    }

    /// Sends a request and reads the whole response.
    pub(super) async fn post(
        &mut self,
        path: &str,
        body: String,
    ) -> Result<Response<Bytes>, Box<dyn Error>> {
        let mut request = Request::post(path)
            .header(header::HOST, &self.host)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let answer = async {
            let (head, body) = self.requests.send_request(request).await?.into_parts();
            Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
        };
        answer.await.map_err(|error: hyper::Error| no_answer(&self.url, &error).into())
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

/// The most likely cause of an HTTP error: the port speaks another protocol, or expects TLS.
fn no_answer(url: &str, error: &hyper::Error) -> String {
    if error.is_parse() {
        return format!(
            "server {url:?}: the answer is not HTTP; is this the HTTP port (8080 by default), and should the URL begin with https?"
        );
    }
    if error.is_incomplete_message() || error.is_canceled() {
        return format!(
            "server {url:?}: the connection was closed without an answer; is this the HTTP port (8080 by default), and does it expect https or a client certificate (--cert)?"
        );
    }
    format!("server {url:?}: {}", with_causes(error))
}

fn no_tls(url: &str, error: &std::io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let hung_up = error.kind() == std::io::ErrorKind::UnexpectedEof;
    if hung_up || matches!(cause, Some(rustls::Error::InvalidMessage(_))) {
        return format!("server {url:?}: the answer is not TLS; should the URL begin with http?");
    }
    format!("server {url:?}: {error}")
}

/// The TLS settings: which servers to trust, and the client certificate.
fn tls(to: &To) -> Result<ClientConfig, Box<dyn Error>> {
    let config = trusting(to.ca.as_deref())?;
    let (Some(cert), Some(key)) = (&to.cert, &to.client_key) else {
        return Ok(config.with_no_client_auth());
    };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| in_file(key, &error))?;
    Ok(config.with_client_auth_cert(certificates(cert)?, private)?)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
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
            for certificate in certificates(path)? {
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
