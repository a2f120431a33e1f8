//! The conformance suite on Redis, over all kinds of connections.

use std::any::Any;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::{KeyRef, Limit};
use tollgate_redis::{Redis, RedisBuilder};
use tollgate_testkit::{Kept, Subject, conformance};

use crate::client::{LONG, runtime};
use crate::servers::{Certificates, Cluster, Sentinels, Server, Together, start_tls, tls_cli_args};

/// How a process and `redis-cli` reach a store.
#[derive(Clone, Debug, Default)]
struct Address {
    url: String,
    prefix: Option<String>,
    roots: Option<PathBuf>,
    client: Option<(PathBuf, PathBuf)>,
    cli: Vec<String>,
}

impl Address {
    fn new(url: String, cli: &[&str]) -> Address {
        let cli = cli.iter().map(ToString::to_string).collect();
        Address { url, cli, ..Address::default() }
    }

    fn at_port(url: String, port: u16, cli: &[&str]) -> Address {
        let port = port.to_string();
        Address::new(url, &[&["-p", &port], cli].concat())
    }

    /// One line for each field.
    fn text(&self) -> String {
        let path = |path: Option<&PathBuf>| path.map_or(String::new(), |p| p.display().to_string());
        let (certificate, key) =
            (self.client.as_ref().map(|c| &c.0), self.client.as_ref().map(|c| &c.1));
        [
            self.url.clone(),
            self.prefix.clone().unwrap_or_default(),
            path(self.roots.as_ref()),
            path(certificate),
            path(key),
        ]
        .join("\n")
    }

    fn of_text(text: &str) -> Option<Address> {
        let mut lines = text.split('\n');
        let mut line = || Some(lines.next()?.to_owned());
        let url = line()?;
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let prefix = some(line()?);
        let mut path = || Some(some(line()?).map(PathBuf::from));
        let (roots, certificate, key) = (path()?, path()?, path()?);
        Some(Address { url, prefix, roots, client: certificate.zip(key), cli: Vec::new() })
    }

    fn builder(&self) -> RedisBuilder {
        let mut builder = Redis::builder(&self.url[..]).connect_timeout(LONG);
        if let Some(prefix) = &self.prefix {
            builder = builder.prefix(&prefix[..]);
        }
        let read = |path: &PathBuf| {
            std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        if let Some(roots) = &self.roots {
            builder = builder.root_certificates(read(roots));
        }
        if let Some((certificate, key)) = &self.client {
            builder = builder.client_certificate(read(certificate), read(key));
        }
        builder
    }
}

/// How a server is broken.
#[derive(Clone, Copy, Debug)]
enum Outage {
    Kill,
    Freeze,
}

/// A store under test.
struct OnRedis {
    address: Address,
    // Dropped before the runtime, on which its connections live.
    store: Redis,
    runtime: Runtime,
    server: Option<(Mutex<Server>, Outage)>,
    _kept: Box<dyn Any + Send + Sync>,
}

impl OnRedis {
    fn new(address: Address, kept: impl Any + Send + Sync) -> OnRedis {
        let runtime = runtime();
        let connect = address.builder().connect();
        let store = runtime.block_on(connect).unwrap_or_else(|error| panic!("{error}"));
        OnRedis { address, store, runtime, server: None, _kept: Box::new(kept) }
    }

    fn on_server(
        address: Address,
        server: Server,
        outage: Outage,
        kept: impl Any + Send + Sync,
    ) -> OnRedis {
        OnRedis { server: Some((Mutex::new(server), outage)), ..OnRedis::new(address, kept) }
    }

    fn one_server() -> OnRedis {
        let server = Server::start(&[]);
        let address = Address::at_port(server.url(), server.port, &[]);
        OnRedis::on_server(address, server, Outage::Kill, ())
    }

    fn with_a_prefix() -> OnRedis {
        let server = Server::start(&[]);
        let mut address = Address::at_port(server.url(), server.port, &[]);
        address.prefix = Some("shop:[eu]*?\\^-1".into());
        OnRedis::on_server(address, server, Outage::Freeze, ())
    }

    fn on_a_unix_socket() -> OnRedis {
        let (server, socket) = Server::start_with_socket();
        let socket = socket.display().to_string();
        let address = Address::new(format!("unix://{socket}"), &["-s", &socket]);
        OnRedis::on_server(address, server, Outage::Kill, ())
    }

    fn with_login_and_database() -> OnRedis {
        let login = ["--user", "alice", "--pass", "open sesame", "--no-auth-warning"];
        let user = ["--user", "alice", "on", ">open sesame", "~tollgate:*", "+@all"];
        let server = Server::start_for(&[&user[..], &["--requirepass", "other"]].concat(), &login);
        let url = format!("redis://alice:open%20sesame@127.0.0.1:{}/3", server.port);
        let cli = [&login[..], &["-n", "3"]].concat();
        let address = Address::at_port(url, server.port, &cli);
        OnRedis::on_server(address, server, Outage::Kill, ())
    }

    fn over_tls(client_certificate: bool) -> OnRedis {
        let certificates = Certificates::new();
        let (server, url) = start_tls(&certificates, client_certificate);
        let cli = tls_cli_args(&certificates);
        let cli: Vec<&str> = cli.iter().map(String::as_str).collect();
        let mut address = Address::at_port(url, server.port, &cli);
        address.roots = Some(certificates.file("ca.crt"));
        if client_certificate {
            let (certificate, key) = ("client.crt", "client.key");
            address.client = Some((certificates.file(certificate), certificates.file(key)));
        }
        OnRedis::on_server(address, server, Outage::Freeze, certificates)
    }

    fn on_a_cluster() -> OnRedis {
        static CLUSTER: Together<Cluster> = Together::new();
        let cluster = CLUSTER.or_start(Cluster::start);
        let address = Address::at_port(cluster.url(), cluster.nodes[0].port, &["-c"]);
        OnRedis::new(address, cluster)
    }

    fn behind_sentinels() -> OnRedis {
        static SENTINELS: Together<Sentinels> = Together::new();
        let sentinels = SENTINELS.or_start(Sentinels::start);
        let address = Address::at_port(sentinels.url(), sentinels.servers[0].port, &[]);
        OnRedis::new(address, Arc::clone(&sentinels))
    }
}

impl Subject for OnRedis {
    type Store = Redis;

    fn store(&self) -> Redis {
        // A rule may have broken the servers meanwhile.
        let _on_it = self.runtime.enter();
        self.address.builder().connect_later().unwrap_or_else(|error| panic!("{error}"))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn kept(&self, namespace: &str, limit: &Limit, key: KeyRef<'_>) -> Option<Kept> {
        let key = self.store.key_of(namespace, limit.clone(), key).ok()?;
        let key = String::from_utf8(key).ok()?;
        let output =
            Command::new("redis-cli").args(&self.address.cli).args(["PTTL", &key]).output();
        let answer = String::from_utf8(output.ok()?.stdout).ok()?;
        match answer.trim().parse::<i64>() {
            Ok(-2) => Some(Kept::Nothing),
            Ok(-1) => Some(Kept::ForEver),
            Ok(millis) => Some(Kept::For(Duration::from_millis(u64::try_from(millis).ok()?))),
            Err(error) => panic!("{answer}: {error}"),
        }
    }

    fn address(&self) -> Option<String> {
        Some(self.address.text())
    }

    fn connect(address: &str) -> Option<OnRedis> {
        Some(OnRedis::new(Address::of_text(address)?, ()))
    }

    fn break_store(&self) -> bool {
        let Some((server, outage)) = &self.server else { return false };
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        match outage {
            Outage::Kill => server.kill(),
            Outage::Freeze => server.freeze(),
        }
        true
    }

    fn mend_store(&self) {
        let Some((server, outage)) = &self.server else { return };
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        match outage {
            Outage::Kill => server.restart(),
            Outage::Freeze => server.thaw(),
        }
    }
}

conformance!(one_server, OnRedis::one_server, lifetime, processes, outage);
conformance!(prefix, OnRedis::with_a_prefix, lifetime, processes, outage);
conformance!(unix_socket, OnRedis::on_a_unix_socket, lifetime, processes, outage);
conformance!(login_and_database, OnRedis::with_login_and_database, lifetime, processes, outage);
conformance!(tls, || OnRedis::over_tls(false), lifetime, processes, outage);
conformance!(tls_with_client_certificate, || OnRedis::over_tls(true), lifetime, processes, outage);
// The rules share this cluster, so they must not break it. `failures/` breaks others.
conformance!(cluster, OnRedis::on_a_cluster, lifetime, processes);
conformance!(sentinels, OnRedis::behind_sentinels, lifetime, processes);
