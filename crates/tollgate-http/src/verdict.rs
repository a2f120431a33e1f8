//! What is known of a request on its way through a [`Gate`](crate::Gate).

use std::fmt;

use tollgate::Error;

use crate::chooser::Choice;
use crate::decider::Decider;
use crate::key_by::RequestKey;
use crate::pass::Pass;
use crate::told::Told;

/// A request that has been looked at.
pub enum Question<D: Decider> {
    /// Not limited: an exempt request, or a route without a limit.
    Skip,
    /// Refused before anybody was asked: it has no key. The status to answer with.
    NoKey(u16),
    /// To be [decided](crate::Gate::decide).
    Ask {
        /// Who.
        key: RequestKey,
        /// How much.
        cost: u64,
        /// By whom.
        choice: Choice<D>,
    },
}

impl<D: Decider> fmt::Debug for Question<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Question::Skip => f.write_str("Skip"),
            Question::NoKey(status) => write!(f, "NoKey({status})"),
            Question::Ask { cost, .. } => write!(f, "Ask({cost})"),
        }
    }
}

/// A request that was looked at, and decided on if that could be [at once](crate::Gate::at_once).
pub enum AtOnce<D: Decider> {
    /// It passes. What its response is to tell, if anything.
    Passes(Option<Told>),
    /// It was decided on, and does not just pass.
    Decided(Verdict<D>),
    /// It has yet to be decided on, or needs not be.
    Not(Question<D>),
}

impl<D: Decider> fmt::Debug for AtOnce<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AtOnce::Passes(_) => f.write_str("Passes"),
            AtOnce::Decided(verdict) => write!(f, "Decided({verdict:?})"),
            AtOnce::Not(question) => write!(f, "Not({question:?})"),
        }
    }
}

/// What became of it.
pub enum Verdict<D: Decider> {
    /// Not limited.
    Unlimited,
    /// It passes; what is known of it goes with it.
    Pass(Pass<D>),
    /// It does not.
    Refuse(Pass<D>),
    /// The store did not answer, and the limiter leaves that to its caller: 503 is the answer to
    /// give.
    Failed(Error),
}

impl<D: Decider> fmt::Debug for Verdict<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Unlimited => f.write_str("Unlimited"),
            Verdict::Pass(_) => f.write_str("Pass"),
            Verdict::Refuse(_) => f.write_str("Refuse"),
            Verdict::Failed(error) => write!(f, "Failed({error})"),
        }
    }
}
