//! Callers that are known: whose key was looked up, and found.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::chooser::{Choice, Chosen, Found, PlanFuture, Resolved};
use crate::decider::Decider;
use crate::head::Head;
use crate::key_by::RequestKey;

/// A caller that was looked up and found, for [`Gate::callers`](crate::Gate::callers).
///
/// ```
/// use tollgate::{Limiter, Memory};
/// use tollgate_http::Caller;
///
/// let paid = Memory::new().limiter("1000/minute")?;
/// let acme: Caller<Limiter<Memory>> = Caller::new("acme").limiter(paid);
/// let ourselves: Caller<Limiter<Memory>> = Caller::new("ourselves").unlimited();
/// # Ok::<(), tollgate::Error>(())
/// ```
pub struct Caller<D> {
    id: Box<[u8]>,
    terms: Terms<D>,
}

enum Terms<D> {
    Usual,
    Own(D),
    Unlimited,
}

/// Does not print the id: it is personal data.
impl<D> fmt::Debug for Caller<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Caller")
    }
}

impl<D> Caller<D> {
    /// A caller with this id, such as the number of an account. It is limited by its id wherever
    /// its requests come from. Use the id of the account, not the key that the client sent: an
    /// account with two keys has one limit.
    ///
    /// See the example of [`Caller`].
    pub fn new(id: impl AsRef<[u8]>) -> Caller<D> {
        Caller { id: id.as_ref().into(), terms: Terms::Usual }
    }

    /// With a limiter of its own, that of its plan for instance. Rules for a path go before it.
    ///
    /// See the example of [`Caller`].
    #[must_use]
    pub fn limiter(self, limiter: impl Into<D>) -> Caller<D> {
        Caller { terms: Terms::Own(limiter.into()), ..self }
    }

    /// Without any limit.
    ///
    /// See the example of [`Caller`].
    #[must_use]
    pub fn unlimited(self) -> Caller<D> {
        Caller { terms: Terms::Unlimited, ..self }
    }
}

type CallerFuture<D> = Pin<Box<dyn Future<Output = Option<Caller<D>>> + Send>>;

type Lookup<D> = dyn Fn(&Head<'_>) -> CallerFuture<D> + Send + Sync;

/// How callers are looked up.
pub(crate) struct Callers<D>(Arc<Lookup<D>>);

impl<D> Clone for Callers<D> {
    fn clone(&self) -> Self {
        Callers(Arc::clone(&self.0))
    }
}

impl<D: Decider> Callers<D> {
    pub(crate) fn new<S, F>(
        state: S,
        find: impl Fn(Arc<S>, &Head<'_>) -> F + Send + Sync + 'static,
    ) -> Callers<D>
    where
        S: Send + Sync + 'static,
        F: Future<Output = Option<Caller<D>>> + Send + 'static,
    {
        let state = Arc::new(state);
        Callers(Arc::new(move |head| Box::pin(find(Arc::clone(&state), head))))
    }

    /// Looks up the caller of a request, and chooses its limiter.
    pub(crate) fn choose(&self, head: &Head<'_>, found: &Found<'_, D>) -> Choice<D> {
        let caller = (self.0)(head);
        // What applies to everybody else. Nothing here may borrow the head, which does not live as
        // long as the future.
        let (rule, usual) = match found {
            Found::Rule(limiter) => (limiter.cloned(), None),
            Found::Usual(limiter) => (None, Some(Usual::Limiter(Arc::clone(limiter)))),
            Found::Plan(plan) => (None, Some(Usual::Plan(plan(head)))),
        };
        Choice::Later(Box::pin(async move {
            let (caller, terms) = match caller.await {
                Some(Caller { id, terms }) => (Some(RequestKey::caller(id)), terms),
                None => (None, Terms::Usual),
            };
            let limiter = match (terms, usual) {
                (Terms::Unlimited, _) => None,
                (Terms::Own(own), Some(_)) => Some(Chosen::new(own)),
                (_, None) => rule,
                (Terms::Usual, Some(Usual::Limiter(limiter))) => Some(limiter),
                (Terms::Usual, Some(Usual::Plan(plan))) => plan.await.map(Chosen::new),
            };
            Resolved { caller, limiter }
        }))
    }
}

/// The limiter of a request that no rule is about.
enum Usual<D> {
    Limiter(Arc<Chosen<D>>),
    Plan(PlanFuture<D>),
}
