//! Callers whose key was looked up and found.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::chooser::{RouteLimiter, Selection};
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
    Default,
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
        Caller { id: id.as_ref().into(), terms: Terms::Default }
    }

    /// The caller has its own limiter, that of its plan for instance. Rules for a path have
    /// priority over it.
    ///
    /// See the example of [`Caller`].
    #[must_use]
    pub fn limiter(self, limiter: impl Into<D>) -> Caller<D> {
        Caller { terms: Terms::Own(limiter.into()), ..self }
    }

    /// A caller without any limit.
    ///
    /// See the example of [`Caller`].
    #[must_use]
    pub fn unlimited(self) -> Caller<D> {
        Caller { terms: Terms::Unlimited, ..self }
    }
}

type CallerFuture<D> = Pin<Box<dyn Future<Output = Option<Caller<D>>> + Send>>;

/// Looks up the caller of a request.
pub(crate) type CallerLookup<D> = dyn Fn(&Head<'_>) -> CallerFuture<D> + Send + Sync;

pub(crate) fn caller_lookup<D: Decider, S, F>(
    state: S,
    find: impl Fn(Arc<S>, &Head<'_>) -> F + Send + Sync + 'static,
) -> Arc<CallerLookup<D>>
where
    S: Send + Sync + 'static,
    F: Future<Output = Option<Caller<D>>> + Send + 'static,
{
    let state = Arc::new(state);
    Arc::new(move |head| Box::pin(find(Arc::clone(&state), head)))
}

/// Finds key and limiter of a request whose caller or plan has to be looked up. A known caller
/// replaces the key of the request; without a limiter the request is not limited.
///
/// The future borrows nothing of the head, which does not live as long.
pub(crate) fn look_up<D: Decider>(
    callers: Option<&CallerLookup<D>>,
    selection: &Selection<'_, D>,
    head: &Head<'_>,
    key: RequestKey,
) -> impl Future<Output = (RequestKey, Option<Arc<RouteLimiter<D>>>)> + Send + use<D> {
    let caller = callers.map(|look_up| look_up(head));
    let is_rule = matches!(selection, Selection::Rule(_));
    let (limiter, plan) = match selection {
        Selection::Rule(limiter) => (limiter.map(Arc::clone), None),
        Selection::Default(limiter) => (Some(Arc::clone(limiter)), None),
        Selection::Plan(plan) => (None, Some(plan(head))),
    };
    async move {
        let caller = match caller {
            Some(caller) => caller.await,
            None => None,
        };
        let (key, terms) = match caller {
            Some(Caller { id, terms }) => (RequestKey::caller(id), terms),
            None => (key, Terms::Default),
        };
        let limiter = match (terms, plan) {
            (Terms::Unlimited, _) => None,
            (Terms::Own(own), _) if !is_rule => Some(RouteLimiter::new(own)),
            (_, Some(plan)) => plan.await.map(RouteLimiter::new),
            (_, None) => limiter,
        };
        (key, limiter)
    }
}
