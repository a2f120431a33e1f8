//! The addresses of the servers, their roles, and the login.

use std::fmt;
use std::time::Duration;

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsCertificates,
    Value,
};
use tollgate::Error;

use crate::failure;

/// The servers that a URL names.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// One server.
    Server(Server),
    /// The primary that sentinels know under a name.
    Sentinel { sentinels: Vec<Server>, name: String, primary: Server },
    /// A cluster, known by some of its nodes.
    Cluster(Vec<Server>),
}

/// One address with everything that is needed to log in.
#[derive(Clone)]
pub(crate) struct Server {
    info: ConnectionInfo,
    tls: Option<TlsCertificates>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes only the address, without passwords.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.addr().fmt(f)
    }
}

/// Certificates in PEM form.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    pub(crate) roots: Option<Vec<u8>>,
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    fn tls(&self) -> TlsCertificates {
        TlsCertificates {
            root_cert: self.roots.clone(),
            client_tls: self
                .client
                .clone()
                .map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key }),
        }
    }
}

impl Target {
    /// Parses `redis://`, `rediss://`, `unix://`. With `+cluster` or `+sentinel` after the scheme,
    /// several addresses are separated by commas.
    pub(crate) fn parse(url: &str, certificates: &Certificates) -> Result<Target, Error> {
        let wrong = |what: &str| {
            Error::request(format!(
                "Redis address {:?}: {what}; expected redis://host:port/database, rediss://, unix:///path, \
                 redis+cluster://host:port,host:port or redis+sentinel://host:port,host:port/name",
                without_password(url)
            ))
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("no scheme"))?;
        let (base, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        if !matches!(base, "redis" | "rediss" | "valkey" | "valkeys" | "unix" | "redis+unix") {
            return Err(wrong("unknown scheme"));
        }
        let server =
            |url: &str| Server::parse(url, certificates).map_err(|error| wrong(&error.to_string()));
        match kind {
            "" => Ok(Target::Server(server(url)?)),
            "unix" => Ok(Target::Server(server(&format!("unix://{rest}"))?)),
            "cluster" | "sentinel" => {
                let (login, rest) = match rest.rsplit_once('@') {
                    Some((login, rest)) => (format!("{login}@"), rest),
                    None => (String::new(), rest),
                };
                let (addresses, path) = rest.split_once('/').unwrap_or((rest, ""));
                let addresses: Vec<_> = addresses.split(',').filter(|a| !a.is_empty()).collect();
                if addresses.is_empty() {
                    return Err(wrong("no address"));
                }
                if kind == "cluster" {
                    let node = |address| server(&format!("{base}://{login}{address}"));
                    return Ok(Target::Cluster(
                        addresses.into_iter().map(node).collect::<Result<_, _>>()?,
                    ));
                }
                let (name, database) = path.split_once('/').unwrap_or((path, ""));
                if name.is_empty() {
                    return Err(wrong("no name of a primary"));
                }
                // The login is for the server. Sentinels are asked without one.
                let sentinel = |address| {
                    let address: &str = address;
                    let port = if address.contains(':') { "" } else { ":26379" };
                    server(&format!("{base}://{address}{port}"))
                };
                let first = addresses.first().copied().unwrap_or_default();
                Ok(Target::Sentinel {
                    primary: server(&format!("{base}://{login}{first}/{database}"))?,
                    name: name.into(),
                    sentinels: addresses.into_iter().map(sentinel).collect::<Result<_, _>>()?,
                })
            }
            _ => Err(wrong("unknown scheme")),
        }
    }
}

impl Server {
    fn parse(url: &str, certificates: &Certificates) -> Result<Server, redis::RedisError> {
        let info = url.into_connection_info()?;
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let info = info.set_tcp_settings(tcp);
        let tls = matches!(info.addr(), ConnectionAddr::TcpTls { .. }).then(|| certificates.tls());
        Ok(Server { info, tls })
    }

    /// The same login at another address.
    pub(crate) fn at(&self, host: &str, port: u16) -> Server {
        let addr = match self.info.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host: host.into(), port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host.into(), port),
        };
        Server { info: self.info.clone().set_addr(addr), tls: self.tls.clone() }
    }

    /// The host, for nodes that report only their port.
    pub(crate) fn host(&self) -> &str {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "localhost",
        }
    }

    pub(crate) fn client(&self) -> Result<Client, Error> {
        let client = match &self.tls {
            Some(tls) => {
                install_provider();
                Client::build_with_tls(self.info.clone(), tls.clone())
            }
            None => Client::open(self.info.clone()),
        };
        client.map_err(|error| failure::of_connect(&self.to_string(), &error))
    }
}

/// How a node finds its server.
#[derive(Clone, Debug)]
pub(crate) enum Finder {
    Fixed(Server),
    /// Asks the sentinels each time.
    Primary {
        sentinels: Vec<Server>,
        name: String,
        primary: Server,
    },
}

impl fmt::Display for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finder::Fixed(server) => server.fmt(f),
            Finder::Primary { name, .. } => write!(f, "primary {name}"),
        }
    }
}

impl Finder {
    /// Each sentinel gets an equal part of the time, so that some is left for the next one, and for
    /// connecting.
    pub(crate) async fn client(&self, time: Duration) -> Result<Client, Error> {
        let (sentinels, name, primary) = match self {
            Finder::Fixed(server) => return server.client(),
            Finder::Primary { sentinels, name, primary } => (sentinels, name, primary),
        };
        let mut last = Error::unavailable(format!("primary {name}: no sentinel to ask"));
        let part = time / u32::try_from(sentinels.len() + 1).unwrap_or(u32::MAX);
        for sentinel in sentinels {
            match tokio::time::timeout(part, ask_sentinel(sentinel, name)).await {
                Ok(Ok((host, port))) => return primary.at(&host, port).client(),
                Ok(Err(error)) => last = error,
                Err(_) => {
                    last =
                        Error::unavailable(format!("sentinel {sentinel}: no answer in {part:?}"));
                }
            }
        }
        Err(last)
    }
}

async fn ask_sentinel(sentinel: &Server, name: &str) -> Result<(String, u16), Error> {
    let failed = |error| failure::of_connect(&format!("sentinel {sentinel}"), &error);
    let client = sentinel.client()?;
    let mut connection = client.get_multiplexed_async_connection().await.map_err(failed)?;
    let mut cmd = redis::cmd("SENTINEL");
    cmd.arg("get-master-addr-by-name").arg(name);
    let reply: Value = connection.send_packed_command(&cmd).await.map_err(failed)?;
    let address: Option<(String, u16)> = redis::from_redis_value(reply).ok();
    address.ok_or_else(|| {
        Error::unavailable(format!("sentinel {sentinel}: knows no primary by the name {name:?}"))
    })
}

/// Installs the cryptography provider of rustls.
fn install_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another part of the program may have installed one, which works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// The URL for messages.
fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        _ => url.into(),
    }
}
