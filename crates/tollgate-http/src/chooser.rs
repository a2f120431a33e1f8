//! Which limiter decides on a request.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::decider::Decider;
use crate::head::Head;
use crate::told::Shown;

type Plan<D> = dyn Fn(&Head<'_>) -> Pin<Box<dyn Future<Output = Option<D>> + Send>> + Send + Sync;

/// Which limiter decides on a request: always the same, by method and path, or what an async function finds, the plan of a customer for instance.
///
/// ```
/// use tollgate::Memory;
/// use tollgate_http::Chooser;
///
/// let store = Memory::new();
/// let chooser = Chooser::one(store.limiter("100/minute")?)
///     .on(Some("POST"), "/login", Some(store.limiter("5/minute")?))
///     .on(None, "/static/*", None);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone)]
pub struct Chooser<D> {
    routes: Vec<Route<D>>,
    otherwise: Otherwise<D>,
}

struct Route<D> {
    method: Option<Box<str>>,
    path: Box<str>,
    limiter: Option<Arc<Chosen<D>>>,
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
        let Route { method, path, limiter } = self;
        Route { method: method.clone(), path: path.clone(), limiter: limiter.clone() }
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
        let routes = self.routes.iter().map(|route| (&route.method, &route.path));
        f.debug_list().entries(routes).finish()
    }
}

/// What was chosen.
pub enum Choice<D> {
    /// This limiter, or none: then the request is not limited.
    Now(Option<Arc<Chosen<D>>>),
    /// What the function says.
    Later(Pin<Box<dyn Future<Output = Option<D>> + Send>>),
}

/// Where it stands, without a count of who has it in hand.
pub(crate) enum Found<'a, D> {
    Known(Option<&'a Arc<Chosen<D>>>),
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

    /// What an async function says; `None` does not limit the request.
    ///
    /// ```
    /// use tollgate::Memory;
    /// use tollgate_http::Chooser;
    ///
    /// let store = Memory::new();
    /// let (free, paid) = (store.limiter("10/minute name=free")?, store.limiter("1000/minute name=paid")?);
    /// let plans = Chooser::plan(move |head| {
    ///     let customer = head.line("x-customer").map(<[u8]>::to_vec);
    ///     let (free, paid) = (free.clone(), paid.clone());
    ///     async move { Some(if customer.as_deref() == Some(b"acme") { paid } else { free }) }
    /// });
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn plan<F>(find: impl Fn(&Head<'_>) -> F + Send + Sync + 'static) -> Chooser<D>
    where
        F: Future<Output = Option<D>> + Send + 'static,
    {
        let plan: Arc<Plan<D>> = Arc::new(move |head: &Head<'_>| Box::pin(find(head)));
        Chooser { routes: Vec::new(), otherwise: Otherwise::Plan(plan) }
    }

    /// Another limiter, or none, for a method and a path; a path that ends in `*` stands for all that begin so. The first that fits counts. `GET` stands for
    /// `HEAD` too, as in most routers: else it would be a way around a limit.
    ///
    /// See the example of [`Chooser`].
    #[must_use]
    pub fn on(mut self, method: Option<&str>, path: &str, limiter: Option<D>) -> Chooser<D> {
        let method = method.map(Into::into);
        self.routes.push(Route { method, path: path.into(), limiter: limiter.map(Chosen::new) });
        self
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
            Found::Known(limiter) => Choice::Now(limiter.cloned()),
            Found::Plan(plan) => Choice::Later(plan(head)),
        }
    }

    /// Where the limiter for a request stands.
    #[inline(always)]
    pub(crate) fn find(&self, head: &Head<'_>) -> Found<'_, D> {
        let fits = |route: &&Route<D>| {
            let path = match route.path.strip_suffix('*') {
                Some(start) => head.path.starts_with(start),
                None => head.path == &*route.path,
            };
            let method =
                |method| method == head.method || (method == "GET" && head.method == "HEAD");
            path && route.method.as_deref().is_none_or(method)
        };
        match (self.routes.iter().find(fits), &self.otherwise) {
            (Some(route), _) => Found::Known(route.limiter.as_ref()),
            (None, Otherwise::One(limiter)) => Found::Known(Some(limiter)),
            (None, Otherwise::Plan(plan)) => Found::Plan(&**plan),
        }
    }
}
