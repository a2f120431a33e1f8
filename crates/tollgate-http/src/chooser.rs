//! Chooses the limiter of a request.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::decider::Decider;
use crate::head::Head;
use crate::header_figures::LimitHeaders;
use crate::paths::{Rule, RuleError};

type Plan<D> = dyn Fn(&Head<'_>) -> PlanFuture<D> + Send + Sync;
pub(crate) type PlanFuture<D> = Pin<Box<dyn Future<Output = Option<D>> + Send>>;

/// Chooses the limiter of a request: always the same one, another one for some methods and paths,
/// or the one that an async function returns, such as that of a customer's plan.
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
    /// `None` if the requests of this route are not limited.
    limiter: Option<Arc<RouteLimiter<D>>>,
}

impl<D> Route<D> {
    fn fits(&self, head: &Head<'_>) -> bool {
        if self.limiter.is_some() { self.rule.limits(head) } else { self.rule.exempts(head) }
    }
}

/// A limiter with the headers of its limits.
pub(crate) struct RouteLimiter<D> {
    pub(crate) limiter: D,
    pub(crate) headers: Arc<LimitHeaders>,
}

impl<D: Decider> RouteLimiter<D> {
    pub(crate) fn new(limiter: D) -> Arc<RouteLimiter<D>> {
        let headers = Arc::new(LimitHeaders::new(limiter.limits()));
        Arc::new(RouteLimiter { limiter, headers })
    }
}

enum Otherwise<D> {
    One(Arc<RouteLimiter<D>>),
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

/// The limiter of a request, borrowed: takes no reference count.
pub(crate) enum Selection<'a, D> {
    /// A rule matches. `None` exempts the request.
    Rule(Option<&'a Arc<RouteLimiter<D>>>),
    /// No rule matches.
    Default(&'a Arc<RouteLimiter<D>>),
    /// No rule matches, and this function finds the limiter.
    Plan(&'a Plan<D>),
}

impl<D: Decider> Chooser<D> {
    /// The same limiter for all requests.
    ///
    /// See the example of [`Chooser`].
    #[must_use]
    pub fn one(limiter: D) -> Chooser<D> {
        Chooser { routes: Vec::new(), otherwise: Otherwise::One(RouteLimiter::new(limiter)) }
    }

    /// The limiter that an async function returns; `None` does not limit the request. The function
    /// gets a handle to `state` for each request: a database and the limiters, for instance.
    ///
    /// The function runs before the limiter decides, for every request. It must not trust the
    /// client: look up a key that the client sent, and take the smallest plan if it is unknown.
    /// [`Gate::callers`](crate::Gate::callers) looks up key and plan together.
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
    ///     // Set by the middleware that has authenticated the caller.
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

    /// Another limiter for a method and a path. The first rule that matches decides.
    ///
    /// The method `*` matches all, and `GET` matches `HEAD` too. Name a method only where the route
    /// takes no other one. In a path `{name}` matches one segment, `{*rest}` one or more, and a
    /// star at the end any rest.
    ///
    /// The rule is compared to the path that the client sent, to the path inside of nested routers,
    /// and to the route that the router matched. It also matches other spellings of its path, such
    /// as `/login/`, `//login` and `/%6cogin` for `/login`: a router or a layer inside may treat
    /// them as the same path.
    ///
    /// See the example of [`Chooser`].
    ///
    /// # Errors
    /// When the rule can never match: it is no path, or an earlier rule covers it.
    pub fn on(
        self,
        method: &str,
        path: &str,
        limiter: impl Into<D>,
    ) -> Result<Chooser<D>, RuleError> {
        self.rule(method, path, Some(RouteLimiter::new(limiter.into())))
    }

    /// No limit for a method and a path. Method and path are written as for [`on`](Chooser::on),
    /// but other spellings of the path are limited: `/static/*` does not exempt `/static/../login`.
    ///
    /// See the example of [`Chooser`].
    ///
    /// # Errors
    /// When the rule can never match: it is no path, or an earlier rule covers it.
    pub fn unlimited(self, method: &str, path: &str) -> Result<Chooser<D>, RuleError> {
        self.rule(method, path, None)
    }

    fn rule(
        mut self,
        method: &str,
        path: &str,
        limiter: Option<Arc<RouteLimiter<D>>>,
    ) -> Result<Chooser<D>, RuleError> {
        let rule = Rule::new(method, path)?;
        rule.not_covered_by(self.routes.iter().map(|route| &route.rule))?;
        self.routes.push(Route { rule, limiter });
        Ok(self)
    }

    /// Whether the limiter depends on the request.
    pub(crate) fn has_choice(&self) -> bool {
        !self.routes.is_empty() || matches!(self.otherwise, Otherwise::Plan(_))
    }

    /// The limiter of a request.
    #[inline(always)]
    pub(crate) fn select(&self, head: &Head<'_>) -> Selection<'_, D> {
        match (self.routes.iter().find(|route| route.fits(head)), &self.otherwise) {
            (Some(route), _) => Selection::Rule(route.limiter.as_ref()),
            (None, Otherwise::One(limiter)) => Selection::Default(limiter),
            (None, Otherwise::Plan(plan)) => Selection::Plan(&**plan),
        }
    }
}
