//! What a question is answered with.

use tollgate::{Decision, PolicyDecision};
use tollgate_http::Outcomes;

/// The answer to one question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// How it came about.
    pub verdict: Verdict,
    /// What the limits said; nothing for keys that are exempt or blocked.
    pub decisions: Decisions,
}

/// How an answer came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The limits let it pass.
    Allowed,
    /// They do not.
    Denied,
    /// They would not, but the rule is in shadow mode: it passes.
    Shadowed,
    /// The key is exempt: it passes, uncounted.
    Exempt,
    /// The key is blocked: it never passes.
    Blocked,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; 5] =
        [Verdict::Allowed, Verdict::Denied, Verdict::Shadowed, Verdict::Exempt, Verdict::Blocked];

    /// Whether it passes.
    #[must_use]
    pub fn passes(self) -> bool {
        match self {
            Verdict::Allowed | Verdict::Shadowed | Verdict::Exempt => true,
            Verdict::Denied | Verdict::Blocked => false,
        }
    }

    /// Its name in answers, metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Allowed => "allowed",
            Verdict::Denied => "denied",
            Verdict::Shadowed => "shadowed",
            Verdict::Exempt => "exempt",
            Verdict::Blocked => "blocked",
        }
    }
}

/// What the limits of a rule said, in their order.
#[derive(Clone, Debug)]
pub enum Decisions {
    /// Nothing was asked.
    None,
    /// One limit.
    One(Decision),
    /// Several.
    Several(Box<PolicyDecision>),
}

impl Decisions {
    pub(crate) fn several(decision: PolicyDecision) -> Decisions {
        Decisions::Several(Box::new(decision))
    }

    /// Each of them.
    pub fn outcomes(&self) -> &[Decision] {
        match self {
            Decisions::None => &[],
            Decisions::One(decision) => std::slice::from_ref(decision),
            Decisions::Several(decision) => decision.outcomes(),
        }
    }

    /// The one to show, and its place.
    pub fn headline(&self) -> Option<(usize, &Decision)> {
        match self {
            Decisions::None => None,
            Decisions::One(decision) => Some((0, decision)),
            Decisions::Several(decision) => Some((decision.headline_index(), decision.headline())),
        }
    }

    /// Whether all let it pass.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.outcomes().iter().all(Decision::allowed)
    }
}

impl Answer {
    /// Whether it passes.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.verdict.passes()
    }
}

impl Outcomes for Decisions {
    fn outcomes(&self) -> &[Decision] {
        Decisions::outcomes(self)
    }

    fn headline_index(&self) -> usize {
        Decisions::headline(self).map_or(0, |(index, _)| index)
    }
}
