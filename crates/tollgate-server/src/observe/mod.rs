//! Statistics of the server: counts by rule, busiest keys, response times. Their size is bounded,
//! whatever clients send: labels are rules and ports, never keys.

mod bans;
mod history;
mod port;
mod rule;
mod sketch;
mod watchlist;

pub use bans::MOST as MOST_BANS;
pub use history::{Counts, HISTORY_SECONDS, History, Latency, RULE_SPAN, RuleCounts};
pub use port::{PortStats, Spans};
pub use rule::{RuleStats, Scope};
pub use sketch::{KeyId, Seen, Sketch, text_of};
pub use watchlist::WatchedDecision;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollgate::KeyRef;

use crate::service::Verdict;
use history::Recorder;
use watchlist::Watchlist;

/// All statistics.
#[derive(Debug, Default)]
pub struct Observer {
    /// The counts by namespace, domain and name.
    rules: Mutex<BTreeMap<[String; 3], Arc<RuleStats>>>,
    busiest: Sketch,
    denied: Sketch,
    ports: [PortStats; 4],
    unknown_domains: AtomicU64,
    recorder: Recorder,
    watchlist: Watchlist,
}

/// The ports, in the order of their statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP and JSON.
    Http,
    /// Envoy's rate limit service.
    Grpc,
    /// Redis' protocol.
    Resp,
    /// The admin port.
    Admin,
}

impl Protocol {
    /// All ports.
    pub const ALL: [Protocol; 4] =
        [Protocol::Http, Protocol::Grpc, Protocol::Resp, Protocol::Admin];

    /// The name in settings, metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Grpc => "grpc",
            Protocol::Resp => "resp",
            Protocol::Admin => "admin",
        }
    }
}

impl Observer {
    /// The counts of a rule. They continue when rules are replaced.
    pub fn rule(&self, scope: Scope<'_>, name: &str) -> Arc<RuleStats> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let new = RuleStats::new(scope, name);
        let key = [new.namespace(), new.domain(), name].map(str::to_owned);
        Arc::clone(rules.entry(key).or_insert_with(|| Arc::new(new)))
    }

    /// Drops the counts of rules that no longer exist.
    pub fn retain(&self, is_rule: impl Fn(&RuleStats) -> bool) {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.retain(|_, stats| is_rule(stats));
    }

    /// The counts of all rules.
    #[must_use]
    pub fn rules(&self) -> Vec<Arc<RuleStats>> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.values().map(Arc::clone).collect()
    }

    /// Counts a hit.
    #[inline]
    pub fn saw(&self, rule: &Arc<RuleStats>, key: KeyRef<'_>, verdict: Verdict) {
        rule.saw(verdict);
        self.busiest.saw(rule, key);
        if !verdict.passes() || verdict == Verdict::Shadowed {
            self.denied.saw(rule, key);
        }
        self.watchlist.saw(rule, key, verdict);
    }

    /// The last decisions on a key, the newest first, since it is watched. A key is watched from
    /// this call on, and for some seconds after the last one.
    #[must_use]
    pub fn watched(&self, rule: &Arc<RuleStats>, key: KeyRef<'_>) -> Vec<WatchedDecision> {
        self.watchlist.ask(rule, key)
    }

    /// The keys with the most hits, the busiest first.
    #[must_use]
    pub fn busiest(&self, most: usize) -> Vec<Seen> {
        self.busiest.top(most)
    }

    /// The keys that were denied most often.
    #[must_use]
    pub fn most_denied(&self, most: usize) -> Vec<Seen> {
        self.denied.top(most)
    }

    /// Counts a request for a domain that has no rules.
    pub fn unknown_domain(&self) {
        self.unknown_domains.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of such requests.
    #[must_use]
    pub fn unknown_domains(&self) -> u64 {
        self.unknown_domains.load(Ordering::Relaxed)
    }

    /// The statistics of a port.
    #[must_use]
    pub fn port(&self, protocol: Protocol) -> &PortStats {
        &self.ports[protocol as usize]
    }
}
