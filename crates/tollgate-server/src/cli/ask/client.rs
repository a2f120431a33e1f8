//! A connection to the HTTP port of a server.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// One connection.
#[derive(Debug)]
pub(in crate::cli) struct Client {
    requests: SendRequest<Full<Bytes>>,
    host: String,
    token: Option<String>,
}

impl Client {
    /// To `http://host:port` or `https://host:port`.
    pub(in crate::cli) async fn connect(
        url: &str,
        token: Option<&str>,
        ca: Option<&Path>,
    ) -> Result<Client, Box<dyn Error>> {
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
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let bare = host.trim_matches(['[', ']']).to_owned();
        let socket = TcpStream::connect((&bare[..], port)).await;
        let socket = socket.map_err(|error| format!("server {url:?}: {error}"))?;
        socket.set_nodelay(true)?;
        let requests = if secure {
            let name = ServerName::try_from(bare)?;
            let tls = TlsConnector::from(Arc::new(trusting(ca)?)).connect(name, socket).await;
            spawned(tls.map_err(|error| format!("server {url:?}: {error}"))?).await?
        } else {
            spawned(socket).await?
        };
        Ok(Client { requests, host: format!("{host}:{port}"), token: token.map(str::to_owned) })
    }

    /// Sends a request and reads the whole answer.
    pub(in crate::cli) async fn post(
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
        let (head, body) = self.requests.send_request(request).await?.into_parts();
        Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
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

/// Whom to believe.
fn trusting(ca: Option<&Path>) -> Result<ClientConfig, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in CertificateDer::pem_file_iter(path)? {
                roots.add(certificate?)?;
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
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
