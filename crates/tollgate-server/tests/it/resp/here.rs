//! The port in the test's own process, so that tests can set rules, stores and the clock.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tollgate::Policy;
use tollgate_server::net::{Drain, Port};
use tollgate_server::resp;
use tollgate_server::rules::{Pattern, Rule, RuleSet, Treatment};
use tollgate_server::service::{Defaults, Service};
use tollgate_stores::Opening;

/// A port with its own runtime; it stops when dropped.
pub(crate) struct Here {
    pub(crate) address: SocketAddr,
    pub(crate) service: Arc<Service>,
    _drain: Drain,
}

impl Here {
    pub(crate) fn start() -> Here {
        Here::on(Opening::new("memory:"))
    }

    pub(crate) fn on(store: Opening) -> Here {
        Here::in_runtime(store, tokio::runtime::Builder::new_multi_thread())
    }

    /// A runtime with paused time: when no task can run, time jumps to the next timer.
    pub(crate) fn without_patience() -> Here {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.start_paused(true);
        Here::in_runtime(Opening::new("memory:"), builder)
    }

    fn in_runtime(store: Opening, mut builder: tokio::runtime::Builder) -> Here {
        let runtime = builder.enable_all().build().unwrap();
        let (drain, draining) = Drain::new();
        let begin = async {
            let store = store.lazily().open().await.unwrap();
            let service = Service::new(store, Defaults::default(), &rules()).unwrap();
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let port = Port::bind("resp", any, Duration::from_secs(10)).await.unwrap();
            (port.address().unwrap(), port, Arc::new(service))
        };
        let (address, port, service) = runtime.block_on(begin);
        let serving = resp::serve(port, Arc::clone(&service), draining);
        std::thread::spawn(move || runtime.block_on(serving));
        Here { address, service, _drain: drain }
    }
}

/// `api`: five per minute, blocked for `mallory`, exempt for `root`; `login` in namespace `web`;
/// `quiet` in shadow mode; `two` with two limits.
fn rules() -> RuleSet {
    let policy = |text: &str| -> Policy { text.parse().unwrap() };
    let mut api = Rule::new("api", policy("5/minute"));
    let keys =
        [(Pattern::new("mallory"), Treatment::Blocked), (Pattern::new("root"), Treatment::Exempt)];
    api.keys = keys.into_iter().collect();
    let mut quiet = Rule::new("quiet", policy("1/minute"));
    quiet.shadow = true;
    let two = Rule::new("two", policy("2/second; 3/hour"));
    let login = Rule::new("login", policy("1/hour"));
    let named = [("", api), ("", quiet), ("", two), ("web", login)];
    let limits = named.map(|(namespace, rule)| ((namespace.to_owned(), rule.name.clone()), rule));
    RuleSet { limits: limits.into_iter().collect(), ..RuleSet::default() }
}
