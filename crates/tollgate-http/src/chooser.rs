//! Which limiter decides on a request.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::decider::Decider;
use crate::head::Head;
use crate::key_by::RequestKey;
use crate::paths::{Rule, RuleError};
use crate::told::Shown;

type Plan<D> = dyn Fn(&Head<'_>) -> PlanFuture<D> + Send + Sync;
pub(crate) type PlanFuture<D> = Pin<Box<dyn Future<Output = Option<D>> + Send>>;

/// Which limiter decides on a request: always the same one, one for some methods and paths, or what
/// an async function finds, such as the plan of a customer.
///
/// ```
/// use tollgate::Memory;
/// use tollgate_http::Chooser;
///
/// let store = Memory::new();
/// let chooser = Chooser::one(store.limiter("20/second; 100/minute")?)
///     .on("POST", "/login", store.limiter("5/minute name=login")?)?
///     .on("*", "/users/{id}/export", store.limiter("10/hour name=export")?)?
///     .unlimited("GET", "/static/*")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A limiter of one limit and one of a policy may be mixed where the first one is of a policy.
#[derive(Clone)]
pub struct Chooser<D> {
    routes: Vec<Route<D>>,
    otherwise: Otherwise<D>,
}

struct Route<D> {
    rule: Rule,
    /// `None` exempts.
    limiter: Option<Arc<Chosen<D>>>,
}

impl<D> Route<D> {
    fn fits(&self, head: &Head<'_>) -> bool {
        if self.limiter.is_some() { self.rule.limits(head) } else { self.rule.exempts(head) }
    }
}

/// A limiter, and what headers say of its limits.
pub struct Chosen<D> {
    pub(crate) limiter: D,
    pub(crate) shown: Arc<Shown>,
}

impl<D> fmt::Debug for Chosen<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown.fmt(f)
    }
}

impl<D: Decider> Chosen<D> {
    pub(crate) fn new(limiter: D) -> Arc<Chosen<D>> {
        let shown = Arc::new(Shown::new(limiter.limits()));
        Arc::new(Chosen { limiter, shown })
    }
}

enum Otherwise<D> {
    One(Arc<Chosen<D>>),
    Plan(Arc<Plan<D>>),
}

impl<D> Clone for Route<D> {
    fn clone(&self) -> Self {
        Route { rule: self.rule.clone(), limiter: self.limiter.clone() }
    }
}

impl<D> Clone for Otherwise<D> {
    fn clone(&self) -> Self {
        match self {
            Otherwise::One(limiter) => Otherwise::One(Arc::clone(limiter)),
            Otherwise::Plan(plan) => Otherwise::Plan(Arc::clone(plan)),
        }
    }
}

impl<D> fmt::Debug for Chooser<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.routes.iter().map(|route| route.rule.to_string())).finish()
    }
}

/// What was chosen for a request.
pub enum Choice<D> {
    /// This limiter, or none: then the request is not limited.
    Now(Option<Arc<Chosen<D>>>),
    /// What a function finds that has to be waited for.
    Later(Pin<Box<dyn Future<Output = Resolved<D>> + Send>>),
}

/// What a [`Choice`] that had to be waited for was in the end.
pub struct Resolved<D> {
    /// The key of a known caller, which replaces the one of the request.
    pub(crate) caller: Option<RequestKey>,
    pub(crate) limiter: Option<Arc<Chosen<D>>>,
}

impl<D> fmt::Debug for Resolved<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolved").field("known", &self.caller.is_some()).finish_non_exhaustive()
    }
}

/// The limiter for a request, borrowed: takes no reference count.
pub(crate) enum Found<'a, D> {
    /// By a rule. `None` exempts.
    Rule(Option<&'a Arc<Chosen<D>>>),
    /// No rule fits.
    Usual(&'a Arc<Chosen<D>>),
    /// No rule fits, and this function finds it.
    Plan(&'a Plan<D>),
}

impl<D> fmt::Debug for Choice<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Choice::Now(Some(_)) => "Now",
            Choice::Now(None) => "Unlimited",
            Choice::Later(_) => "Later",
        })
    }
}

impl<D: Decider> Chooser<D> {
    /// Always this one.
    ///
    /// See the example of [`Chooser`].
    #[must_use]
    pub fn one(limiter: D) -> Chooser<D> {
        Chooser { routes: Vec::new(), otherwise: Otherwise::One(Chosen::new(limiter)) }
    }

    /// What an async function finds; `None` does not limit the request. The function gets a handle
    /// to `state` for each request: a database and the limiters, for instance.
    ///
    /// The function is called before the limit is asked, for every request. It must not believe
    /// what the client wrote: look up a key that the client sent, and take the smallest plan when
    /// it is unknown. [`Gate::callers`](crate::Gate::callers) does that for key and plan at once.
    ///
    /// ```
    /// use tollgate::{Limiter, Memory};
    /// use tollgate_http::Chooser;
    ///
    /// struct Plans {
    ///     free: Limiter<Memory>,
    ///     paid: Limiter<Memory>,
    /// }
    ///
    /// let store = Memory::new();
    /// let plans = Plans {
    ///     free: store.limiter("10/minute name=api")?,
    ///     paid: store.limiter("1000/minute name=api")?,
    /// };
    /// let by_plan = Chooser::plan(plans, |plans, head| {
    ///     // Set by the middleware that has checked who it is.
    ///     let paid = head.extension::<bool>().copied().unwrap_or(false);
    ///     async move { Some(if paid { plans.paid.clone() } else { plans.free.clone() }) }
    /// });
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn plan<S, F>(
        state: S,
        find: impl Fn(Arc<S>, &Head<'_>) -> F + Send + Sync + 'static,
    ) -> Chooser<D>
    where
        S: Send + Sync + 'static,
        F: Future<Output = Option<D>> + Send + 'static,
    {
        let state = Arc::new(state);
        let plan: Arc<Plan<D>> =
            Arc::new(move |head: &Head<'_>| Box::pin(find(Arc::clone(&state), head)));
        Chooser { routes: Vec::new(), otherwise: Otherwise::Plan(plan) }
    }

    /// Another limiter for a method and a path. The first rule that fits counts.
    ///
    /// The method `*` stands for all, and `GET` for `HEAD` too. Name a method only where the route
    /// takes no other one. In a path `{name}` stands for one segment, `{*rest}` for at least one
    /// more, and a star at the end for whatever follows.
    ///
    /// The rule is compared to the path that the client sent, to the path inside of nested routers,
    /// and to the route that the router matched. It also fits other spellings of its path, such as
    /// `/login/`, `//login` and `/%6cogin` for `/login`: a router or a layer behind may take them
    /// for the same.
    ///
    /// See the example of [`Chooser`].
    ///
    /// # Errors
    /// When the rule can never fit: it is no path, or an earlier rule covers it.
    pub fn on(
        self,
        method: &str,
        path: &str,
        limiter: impl Into<D>,
    ) -> Result<Chooser<D>, RuleError> {
        self.rule(method, path, Some(Chosen::new(limiter.into())))
    }

    /// No limit for a method and a path. Method and path are written as for [`on`](Chooser::on),
    /// but other spellings of the path are limited: `/static/*` does not exempt `/static/../login`.
    ///
    /// See the example of [`Chooser`].
    ///
    /// # Errors
    /// When the rule can never fit: it is no path, or an earlier rule covers it.
    pub fn unlimited(self, method: &str, path: &str) -> Result<Chooser<D>, RuleError> {
        self.rule(method, path, None)
    }

    fn rule(
        mut self,
        method: &str,
        path: &str,
        limiter: Option<Arc<Chosen<D>>>,
    ) -> Result<Chooser<D>, RuleError> {
        let rule = Rule::new(method, path)?;
        rule.not_covered_by(self.routes.iter().map(|route| &route.rule))?;
        self.routes.push(Route { rule, limiter });
        Ok(self)
    }

    /// The limiter for all requests, where they have the same.
    pub(crate) fn only(&self) -> Option<&Arc<Chosen<D>>> {
        match &self.otherwise {
            Otherwise::One(limiter) if self.routes.is_empty() => Some(limiter),
            _ => None,
        }
    }

    /// The limiter for a request.
    #[must_use]
    pub fn choose(&self, head: &Head<'_>) -> Choice<D> {
        match self.find(head) {
            Found::Rule(limiter) => Choice::Now(limiter.cloned()),
            Found::Usual(limiter) => Choice::Now(Some(Arc::clone(limiter))),
            Found::Plan(plan) => Choice::planned(plan(head)),
        }
    }

    /// The limiter for a request, borrowed.
    #[inline(always)]
    pub(crate) fn find(&self, head: &Head<'_>) -> Found<'_, D> {
        match (self.routes.iter().find(|route| route.fits(head)), &self.otherwise) {
            (Some(route), _) => Found::Rule(route.limiter.as_ref()),
            (None, Otherwise::One(limiter)) => Found::Usual(limiter),
            (None, Otherwise::Plan(plan)) => Found::Plan(&**plan),
        }
    }
}

impl<D: Decider> Choice<D> {
    fn planned(plan: PlanFuture<D>) -> Choice<D> {
        Choice::Later(Box::pin(async move {
            Resolved { caller: None, limiter: plan.await.map(Chosen::new) }
        }))
    }
}
