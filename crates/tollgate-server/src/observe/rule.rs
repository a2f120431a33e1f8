//! Counts of one rule.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::service::Verdict;

/// How the hits of a rule ended.
#[derive(Debug, Default)]
pub struct RuleStats {
    namespace: Box<str>,
    name: Box<str>,
    verdicts: [AtomicU64; 5],
    errors: AtomicU64,
}

impl RuleStats {
    pub(crate) fn new(namespace: &str, name: &str) -> RuleStats {
        RuleStats { namespace: namespace.into(), name: name.into(), ..RuleStats::default() }
    }

    /// Where the rule is.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn saw(&self, verdict: Verdict) {
        self.verdicts[verdict as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the store did not answer.
    pub fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Hits that ended so.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> u64 {
        self.verdicts[verdict as usize].load(Ordering::Relaxed)
    }

    /// Questions that the store did not answer.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }
}
