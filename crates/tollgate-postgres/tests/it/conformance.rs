//! The suite of every store, on PostgreSQL in the ways it can be reached.

use std::any::Any;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::{KeyRef, Limit};
use tollgate_postgres::{Postgres, PostgresBuilder};
use tollgate_testkit::{Kept, Subject, conformance};

use crate::client::{LONG, runtime};
use crate::servers::Server;

/// How a process reaches a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Address {
    pub(crate) url: String,
    pub(crate) roots: Option<String>,
    pub(crate) client: Option<(String, String)>,
}

impl Address {
    pub(crate) fn at(url: String) -> Address {
        Address { url, ..Address::default() }
    }

    pub(crate) fn builder(&self) -> PostgresBuilder {
        let mut builder = Postgres::builder(&self.url[..]).connect_timeout(LONG);
        if let Some(roots) = &self.roots {
            builder = builder.root_certificates(&roots[..]);
        }
        if let Some((certificate, key)) = &self.client {
            builder = builder.client_certificate(&certificate[..], &key[..]);
        }
        builder
    }
}

/// A store under test.
struct OnPostgres {
    address: Address,
    // Before the runtime, on which its connections live.
    store: Postgres,
    looking: tokio_postgres::Client,
    runtime: Runtime,
    server: Option<Mutex<Server>>,
    _kept: Box<dyn Any + Send + Sync>,
}

impl OnPostgres {
    fn new(address: Address, kept: impl Any + Send + Sync) -> OnPostgres {
        let runtime = runtime();
        let connect = address.builder().connect();
        let store = runtime.block_on(connect).unwrap_or_else(|error| panic!("{error}"));
        let looking = runtime.block_on(crate::client::session(&address.url));
        OnPostgres { address, store, looking, runtime, server: None, _kept: Box::new(kept) }
    }

    fn one_server() -> OnPostgres {
        let server = Server::start();
        let address = Address::at(server.url());
        OnPostgres { server: Some(Mutex::new(server)), ..OnPostgres::new(address, ()) }
    }
}

impl Subject for OnPostgres {
    type Store = Postgres;

    fn store(&self) -> Postgres {
        // A rule may have broken the server meanwhile.
        let _on_it = self.runtime.enter();
        self.address.builder().connect_later().unwrap_or_else(|error| panic!("{error}"))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn kept(&self, namespace: &str, limit: &Limit, key: KeyRef<'_>) -> Option<Kept> {
        let key = self.store.key_of(namespace, limit.clone(), key).ok()?;
        let sql = "SELECT expires - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM tollgate.counters WHERE key = $1
            UNION ALL SELECT 0 FROM tollgate.log WHERE key = $1 AND NOT EXISTS (SELECT FROM tollgate.counters WHERE key = $1)";
        let rows = self.runtime.block_on(self.looking.query(sql, &[&key])).ok()?;
        let Some(row) = rows.first() else { return Some(Kept::Nothing) };
        Some(Kept::For(Duration::from_micros(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))))
    }

    fn address(&self) -> Option<String> {
        Some(self.address.url.clone())
    }

    fn connect(address: &str) -> Option<OnPostgres> {
        Some(OnPostgres::new(Address::at(address.to_owned()), ()))
    }

    fn break_store(&self) -> bool {
        let Some(server) = &self.server else { return false };
        server.lock().unwrap_or_else(PoisonError::into_inner).kill();
        true
    }

    fn mend_store(&self) {
        let Some(server) = &self.server else { return };
        server.lock().unwrap_or_else(PoisonError::into_inner).run();
    }
}

conformance!(one_server, OnPostgres::one_server, lifetime, processes, outage);
