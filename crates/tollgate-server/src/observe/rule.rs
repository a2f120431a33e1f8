//! Counts of one rule.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::{KeyRef, Outcome, OwnedKey, Timestamp};

use super::bans::Bans;
use super::history::{Counts, RuleCounts, RuleRecorder};
use crate::service::Verdict;

/// The place of a rule. A domain and a namespace of the same name are different places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope<'a> {
    /// A namespace of rules that clients ask for by name.
    Namespace(&'a str),
    /// A domain of descriptors.
    Domain(&'a str),
}

/// The results of the hits of a rule.
#[derive(Debug, Default)]
pub struct RuleStats {
    namespace: Box<str>,
    domain: Box<str>,
    name: Box<str>,
    verdicts: [AtomicU64; 6],
    errors: AtomicU64,
    recorder: RuleRecorder,
    bans: Bans,
}

impl RuleStats {
    pub(crate) fn new(scope: Scope<'_>, name: &str) -> RuleStats {
        let (namespace, domain) = match scope {
            Scope::Namespace(namespace) => (namespace.into(), Box::default()),
            Scope::Domain(domain) => (Box::default(), domain.into()),
        };
        RuleStats { namespace, domain, name: name.into(), ..RuleStats::default() }
    }

    /// The namespace of the rule; empty for rules of domains.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The domain of the rule; empty for rules that clients ask for by name.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The name of the rule.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn saw(&self, verdict: Verdict) {
        self.verdicts[verdict as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that the store did not answer.
    pub fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of hits with this verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> u64 {
        self.verdicts[verdict as usize].load(Ordering::Relaxed)
    }

    /// Notes the counts since the last call, and returns them.
    pub(super) fn tick(&self, now: u64) -> Counts {
        let [allowed, denied, shadowed, exempt, blocked, banned] =
            Verdict::ALL.map(|verdict| self.count(verdict));
        self.recorder.tick(now, [allowed, denied, shadowed, exempt, blocked, banned, self.errors()])
    }

    /// The hits of the last 15 minutes in spans of [`RULE_SPAN`](super::RULE_SPAN) seconds, the
    /// oldest first: passed, denied, and denied in shadow mode. None for a rule that was not hit.
    #[must_use]
    pub fn spans(&self, now: u64) -> Vec<RuleCounts> {
        self.recorder.spans(now)
    }

    /// The number of requests that the store did not decide.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Notes whether a decision found a key banned.
    #[inline]
    pub(crate) fn saw_ban(&self, key: KeyRef<'_>, outcomes: &[Outcome]) {
        // Limits that come with requests are counted together, so the same key of two of them could
        // not be distinguished.
        if !self.name.is_empty() {
            self.bans.saw(key, outcomes);
        }
    }

    /// Forgets that a key is banned.
    pub(crate) fn forget_ban(&self, key: KeyRef<'_>) {
        self.bans.forget(key);
    }

    /// The banned keys that this server knows, and when their bans end.
    #[must_use]
    pub fn bans(&self, now: Timestamp) -> Vec<(OwnedKey, Timestamp)> {
        self.bans.at(now)
    }
}
