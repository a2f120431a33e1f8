//! What a question is answered with.

use tollgate::{Decision, Outcome};

/// The answer to one question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// How it came about.
    pub verdict: Verdict,
    /// The decision of the limits; `None` for keys that are exempt or blocked.
    pub decision: Option<Decision>,
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

impl Answer {
    /// Whether it passes.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.verdict.passes()
    }

    /// The outcome of each limit, in order; none for keys that are exempt or blocked.
    pub fn outcomes(&self) -> &[Outcome] {
        self.decision.as_ref().map_or(&[], Decision::outcomes)
    }
}
