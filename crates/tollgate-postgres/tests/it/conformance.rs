//! The conformance suite on PostgreSQL, over all kinds of connections.

use std::any::Any;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::{KeyRef, Limit};
use tollgate_postgres::{Postgres, PostgresBuilder, Tables};
use tollgate_testkit::{Kept, Subject, conformance};

use crate::client::{LONG, runtime, session};
use crate::servers::{Certificates, Pooler, Server, Shape, Together};

/// The address of a store, for other processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Address {
    pub(crate) url: String,
    tables: Tables,
    pub(crate) roots: Option<String>,
    pub(crate) client: Option<(String, String)>,
}

impl Address {
    pub(crate) fn at(url: String) -> Address {
        Address { url, ..Address::default() }
    }

    /// All fields, joined by bars; no field contains a bar.
    fn text(&self) -> String {
        let (certificate, key) = self.client.clone().unwrap_or_default();
        let tables = if self.tables == Tables::Logged { "logged" } else { "" };
        let roots = self.roots.as_deref().unwrap_or_default();
        [&self.url, tables, roots, &certificate, &key].join("|")
    }

    fn of_text(text: &str) -> Option<Address> {
        let parts: Vec<String> = text.split('|').map(str::to_owned).collect();
        let [url, tables, roots, certificate, key] = <[String; 5]>::try_from(parts).ok()?;
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let tables = if tables == "logged" { Tables::Logged } else { Tables::Unlogged };
        Some(Address { url, tables, roots: some(roots), client: some(certificate).zip(some(key)) })
    }

    pub(crate) fn builder(&self) -> PostgresBuilder {
        let mut builder =
            Postgres::builder(&self.url[..]).connect_timeout(LONG).tables(self.tables);
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
    // Dropped before the runtime, on which its connections live.
    store: Postgres,
    runtime: Runtime,
    server: Option<Mutex<Server>>,
    _kept: Box<dyn Any + Send + Sync>,
}

impl OnPostgres {
    fn new(address: Address, kept: impl Any + Send + Sync) -> OnPostgres {
        let runtime = runtime();
        let connect = address.builder().connect();
        let store = runtime.block_on(connect).unwrap_or_else(|error| panic!("{error}"));
        OnPostgres { address, store, runtime, server: None, _kept: Box::new(kept) }
    }

    /// A separate server for each rule, so that it can be broken.
    fn one_server() -> OnPostgres {
        let server = Server::start();
        let address = Address::at(server.url());
        OnPostgres { server: Some(Mutex::new(server)), ..OnPostgres::new(address, ()) }
    }
}

impl OnPostgres {
    fn through_a_pooler() -> OnPostgres {
        static POOLER: Together<Pooler> = Together::new();
        let pooler = POOLER.or_start(Pooler::start);
        OnPostgres::new(Address::at(pooler.url()), pooler)
    }

    /// A store over TLS with a client certificate, on logged tables, and with an unusual isolation
    /// level.
    fn over_tls() -> OnPostgres {
        static SERVER: Together<(Server, Certificates)> = Together::new();
        let started = SERVER.or_start(|| {
            let certificates = Certificates::new();
            let server = Server::shaped(&tls(&certificates));
            let role = async {
                let admin = session(&server.url()).await;
                admin.batch_execute("CREATE ROLE client SUPERUSER LOGIN").await.unwrap();
            };
            runtime().block_on(role);
            (server, certificates)
        });
        let read = |name: &str| std::fs::read_to_string(started.1.file(name)).unwrap();
        let address = Address {
            url: format!("{}?sslmode=verify-full", started.0.url_for("client", "postgres")),
            tables: Tables::Logged,
            roots: Some(read("ca.crt")),
            client: Some((read("client.crt"), read("client.key"))),
        };
        OnPostgres::new(address, started)
    }
}

/// A server that admits only clients with a certificate, under the name in it.
pub(crate) fn tls(certificates: &Certificates) -> Shape {
    let names = ["ca.crt", "server.crt", "server.key"];
    Shape {
        settings: vec![
            "ssl=on".into(),
            "ssl_ca_file=ca.crt".into(),
            "ssl_cert_file=server.crt".into(),
            "ssl_key_file=server.key".into(),
            "default_transaction_isolation=serializable".into(),
        ],
        access: Some(
            "hostssl all client 127.0.0.1/32 cert\nhost all postgres 127.0.0.1/32 trust\n".into(),
        ),
        files: names.iter().map(|name| (certificates.file(name), *name)).collect(),
        ..Shape::default()
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
        let rows = self
            .runtime
            .block_on(async { session(&self.address.url).await.query(sql, &[&key]).await });
        let rows = rows.ok()?;
        let Some(row) = rows.first() else { return Some(Kept::Nothing) };
        Some(Kept::For(Duration::from_micros(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))))
    }

    fn address(&self) -> Option<String> {
        Some(self.address.text())
    }

    fn connect(address: &str) -> Option<OnPostgres> {
        Some(OnPostgres::new(Address::of_text(address)?, ()))
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

/// The rules that may depend on the connection: answers, concurrent callers, several processes.
macro_rules! some_rules {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;
            use tollgate_testkit::rules;

            #[test]
            fn answers_equal_the_definition() {
                let subject = $make();
                rules::vectors::vectors_are_answered_as_written(&subject);
                rules::together::all_keys_are_charged_or_none(&subject);
                rules::together::a_denial_charges_the_limits_that_charge_denied(&subject);
                rules::keys::long_keys_differ_in_any_byte(&subject);
            }

            #[test]
            fn callers_at_the_same_time_never_pass_a_limit() {
                let subject = $make();
                rules::concurrent::concurrent_callers_admit_exactly_the_limit(&subject);
                rules::concurrent::fresh_keys_admit_exactly_one(&subject);
                rules::concurrent::concurrent_groups_never_pass_a_limit(&subject);
            }

            #[test]
            fn several_processes_admit_exactly_the_limit() {
                const TEST: &str =
                    concat!(module_path!(), "::several_processes_admit_exactly_the_limit");
                rules::processes::several_processes_admit_exactly_the_limit(TEST, $make);
            }
        }
    };
}

some_rules!(pooler, OnPostgres::through_a_pooler);
some_rules!(tls_and_logged, OnPostgres::over_tls);
