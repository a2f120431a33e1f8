//! The decision of a rule on a key.

use std::sync::Arc;

use tollgate::shared::{AnyStore, SharedLimiter};
use tollgate::{Decision, Key, Limit, Outcome, WireReceipt};
use tollgate_http::{HeaderFigures, Headers, LimitHeaders};

/// The limits of a rule on the store, with their headers.
#[derive(Debug)]
pub(super) struct RuleLimiter {
    pub(super) limiter: SharedLimiter<AnyStore>,
    pub(super) headers: Arc<LimitHeaders>,
}

/// The decision of a rule on a key, with the limits that decided.
#[derive(Clone, Debug)]
pub struct RuleDecision<'r> {
    /// How the rule decided.
    pub verdict: Verdict,
    /// The decision of the limits; `None` for keys that are exempt or blocked.
    pub decision: Option<Decision>,
    limiter: Option<&'r RuleLimiter>,
}

/// How a rule decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All limits allow the hit.
    Allowed,
    /// A limit denies the hit.
    Denied,
    /// A limit denies the hit, and it passes because the rule is in shadow mode.
    Shadowed,
    /// The key is exempt: it passes and is not counted.
    Exempt,
    /// The key is blocked: it never passes.
    Blocked,
    /// A ban denies: the key was denied too often.
    Banned,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Verdict; 6] = [
        Verdict::Allowed,
        Verdict::Denied,
        Verdict::Shadowed,
        Verdict::Exempt,
        Verdict::Blocked,
        Verdict::Banned,
    ];

    /// Whether the hit passes.
    #[must_use]
    pub fn passes(self) -> bool {
        match self {
            Verdict::Allowed | Verdict::Shadowed | Verdict::Exempt => true,
            Verdict::Denied | Verdict::Blocked | Verdict::Banned => false,
        }
    }

    /// Its name in responses, metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Allowed => "allowed",
            Verdict::Denied => "denied",
            Verdict::Shadowed => "shadowed",
            Verdict::Exempt => "exempt",
            Verdict::Blocked => "blocked",
            Verdict::Banned => "banned",
        }
    }
}

impl<'r> RuleDecision<'r> {
    /// Without limits: the key is exempt or blocked.
    pub(crate) fn without_limits(verdict: Verdict) -> RuleDecision<'r> {
        RuleDecision { verdict, decision: None, limiter: None }
    }

    pub(super) fn new(
        verdict: Verdict,
        decision: Option<Decision>,
        limiter: &'r RuleLimiter,
    ) -> RuleDecision<'r> {
        RuleDecision { verdict, decision, limiter: Some(limiter) }
    }

    /// Whether the hit passes.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.verdict.passes()
    }

    /// The units in use by the limit that the answer names: a ban has none.
    pub(crate) fn used(&self) -> u64 {
        let named = self.decision.as_ref().map_or(0, Decision::named_index);
        self.outcomes().get(named).map_or(0, Outcome::used)
    }

    /// The outcome of each limit, in order; none for keys that are exempt or blocked.
    pub fn outcomes(&self) -> &[Outcome] {
        self.decision.as_ref().map_or(&[], Decision::outcomes)
    }

    /// The limits, in the order of their outcomes; none for keys that are exempt or blocked.
    #[must_use]
    pub fn limits(&self) -> &'r [Limit] {
        self.limiter.map_or(&[], |limiter| limiter.limiter.limits())
    }

    /// The receipts of the decision on this key: one for each limit that was charged.
    pub fn receipts<K: Key + Copy>(&self, key: K) -> impl Iterator<Item = WireReceipt> {
        let made = self.limiter.zip(self.decision.as_ref());
        made.into_iter()
            .flat_map(move |(limiter, decision)| limiter.limiter.wire_receipts(key, decision))
    }

    /// The numbers of the headers that describe the decision, if there are any.
    #[must_use]
    pub fn figures(&self, headers: &Headers) -> Option<HeaderFigures> {
        headers.figures(&self.limiter?.headers, self.decision.as_ref()?)
    }
}
