//! The conformance suite on one server and on three.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::{KeyRef, Limit};
use tollgate_memcached::Memcached;
use tollgate_testkit::{Kept, Subject, conformance};
use tollgate_testservers::Together;

use crate::client::{LONG, runtime};
use crate::server::{Server, says};

/// How a server is broken.
#[derive(Clone, Copy, Debug)]
enum Outage {
    Kill,
    Freeze,
}

/// A store under test.
struct OnMemcached {
    ports: Vec<u16>,
    // Dropped before the runtime, on which its connections live.
    store: Memcached,
    runtime: Runtime,
    server: Option<(Mutex<Server>, Outage)>,
    _kept: Option<Arc<Vec<Server>>>,
}

fn url(ports: &[u16]) -> String {
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("memcached://{}", hosts.join(","))
}

impl OnMemcached {
    fn new(ports: Vec<u16>) -> OnMemcached {
        let runtime = runtime();
        let connect = Memcached::builder(url(&ports)).connect_timeout(LONG).connect();
        let store = runtime.block_on(connect).unwrap_or_else(|error| panic!("{error}"));
        OnMemcached { ports, store, runtime, server: None, _kept: None }
    }

    fn breaking(outage: Outage) -> OnMemcached {
        let server = Server::start(&[]);
        let subject = OnMemcached::new(vec![server.port]);
        OnMemcached { server: Some((Mutex::new(server), outage)), ..subject }
    }

    fn one_server() -> OnMemcached {
        OnMemcached::breaking(Outage::Kill)
    }

    fn three_servers() -> OnMemcached {
        static SERVERS: Together<Vec<Server>> = Together::new();
        let servers = SERVERS.or_start(|| (0..3).map(|_| Server::start(&[])).collect());
        let subject = OnMemcached::new(servers.iter().map(|server| server.port).collect());
        OnMemcached { _kept: Some(servers), ..subject }
    }
}

impl Subject for OnMemcached {
    type Store = Memcached;

    fn store(&self) -> Memcached {
        // A rule may have broken the server meanwhile.
        let _on_it = self.runtime.enter();
        let builder = Memcached::builder(url(&self.ports)).connect_timeout(LONG);
        builder.connect_later().unwrap_or_else(|error| panic!("{error}"))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Memcached does not support times after January 2038.
    fn refuses(&self, limit: &Limit) -> bool {
        let units = limit.burst().max(limit.quota());
        let span = u128::from(units) * limit.period().as_micros() / u128::from(limit.quota());
        span > Duration::from_secs(10 * 365 * 24 * 3600).as_micros()
    }

    fn kept(&self, namespace: &str, limit: &Limit, key: KeyRef<'_>) -> Option<Kept> {
        let key = self.store.key_of(namespace, limit.clone(), key).ok()?;
        let command = format!("mg {} t", String::from_utf8(key).ok()?);
        let answers = self.ports.iter().map(|port| says(*port, &command));
        let kept = |answer: String| match answer.strip_prefix("HD t") {
            Some("-1") => Some(Kept::ForEver),
            Some(seconds) => {
                let seconds = seconds.parse().unwrap_or_else(|e| panic!("{answer}: {e}"));
                Some(Kept::For(Duration::from_secs(seconds)))
            }
            None => {
                assert_eq!(answer, "EN");
                None
            }
        };
        answers.filter_map(kept).next().or(Some(Kept::Nothing))
    }

    fn address(&self) -> Option<String> {
        Some(self.ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    }

    fn connect(address: &str) -> Option<OnMemcached> {
        let ports: Option<Vec<u16>> = address.split(' ').map(|port| port.parse().ok()).collect();
        Some(OnMemcached::new(ports?))
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

conformance!(one_server, OnMemcached::one_server, lifetime, processes, outage);
// The rules share these servers, so they are never broken.
conformance!(three_servers, OnMemcached::three_servers, lifetime, processes);

/// The rules of an outage again, on a server that keeps its connections and does not respond.
mod frozen {
    use tollgate_testkit::rules::outage;

    use super::{OnMemcached, Outage};

    #[test]
    fn a_broken_store_gives_errors_in_time() {
        outage::a_broken_store_gives_errors_in_time(&OnMemcached::breaking(Outage::Freeze));
    }

    #[test]
    fn a_mended_store_answers_again() {
        outage::a_mended_store_answers_again(&OnMemcached::breaking(Outage::Freeze));
    }

    #[test]
    fn an_unavailable_call_was_not_executed() {
        outage::an_unavailable_call_was_not_executed(&OnMemcached::breaking(Outage::Freeze));
    }
}
