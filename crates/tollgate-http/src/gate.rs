//! The settings of a gate: key, limiter, cost, exemptions, headers and refusals.

mod decide;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::callers::{Caller, CallerLookup, caller_lookup};
use crate::chooser::Chooser;
use crate::decider::Decider;
use crate::head::Head;
use crate::headers::Headers;
use crate::key_by::{KeyBy, RequestKey};
use crate::settle::SettleBy;

/// How a gate treats a request that has no key.
///
/// ```
/// assert_eq!(tollgate_http::OnMissing::default(), tollgate_http::OnMissing::Share);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// All requests without a key share one bucket.
    #[default]
    Share,
    /// The request is refused with this status.
    Refuse(u16),
}

type CostFn = dyn Fn(&Head<'_>) -> u64 + Send + Sync;
type ExemptFn = dyn Fn(&Head<'_>, &RequestKey) -> bool + Send + Sync;

/// Decides on requests, the same way for all frameworks. A middleware translates between its
/// framework and a gate.
///
/// ```
/// use tollgate::Memory;
/// use tollgate_http::{ClientIp, Gate, KeyBy};
///
/// let gate = Gate::new(Memory::new().limiter("100/minute")?)
///     .key(KeyBy::client_ip(ClientIp::behind_hops(1)))
///     .cost(|head| if head.method == "POST" { 5 } else { 1 });
/// # Ok::<(), tollgate::Error>(())
/// ```
#[doc(alias = "throttle")]
pub struct Gate<D: Decider> {
    rules: Arc<Rules<D>>,
}

#[derive(Clone)]
struct Rules<D: Decider> {
    chooser: Chooser<D>,
    key: KeyBy,
    callers: Option<Arc<CallerLookup<D>>>,
    on_missing: OnMissing,
    cost: Option<Arc<CostFn>>,
    exempt: Option<Arc<ExemptFn>>,
    settle: Option<SettleBy>,
    keeps_decisions: bool,
    headers: Headers,
    wait: Duration,
    shadow: bool,
    exempts_preflight: bool,
    status: u16,
    problem: bool,
    warned_missing_key: Arc<AtomicBool>,
}

impl<D: Decider> Clone for Gate<D> {
    fn clone(&self) -> Self {
        Gate { rules: Arc::clone(&self.rules) }
    }
}

impl<D: Decider> fmt::Debug for Gate<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("key", &self.rules.key).finish_non_exhaustive()
    }
}

impl<D: Decider> Gate<D> {
    /// Applies one limiter to all requests, by the address of the peer.
    ///
    /// See the example of [`Gate`].
    #[must_use]
    pub fn new(limiter: D) -> Gate<D> {
        Gate::from_chooser(Chooser::one(limiter))
    }

    /// A limiter for each request.
    ///
    /// See the examples of [`Chooser`].
    #[must_use]
    pub fn from_chooser(chooser: Chooser<D>) -> Gate<D> {
        Gate {
            rules: Arc::new(Rules {
                chooser,
                key: KeyBy::default(),
                callers: None,
                on_missing: OnMissing::default(),
                cost: None,
                exempt: None,
                settle: None,
                keeps_decisions: false,
                headers: Headers::default(),
                wait: Duration::ZERO,
                shadow: false,
                exempts_preflight: false,
                status: 429,
                problem: false,
                warned_missing_key: Arc::default(),
            }),
        }
    }

    /// Changes a setting of this gate only: clones keep theirs.
    fn change(mut self, change: impl FnOnce(&mut Rules<D>)) -> Self {
        change(Arc::make_mut(&mut self.rules));
        self
    }

    /// The key that is limited. Default: the address of the peer.
    #[must_use]
    pub fn key(self, key: KeyBy) -> Self {
        self.change(|rules| rules.key = key)
    }

    /// Looks up the caller of a request, by an API key for instance. A known caller is limited by
    /// its id, and everybody else by the [key](Gate::key) of the request, which is the address
    /// unless you set another: an invented API key has no bucket of its own.
    ///
    /// The function gets a handle to `state` for each request, a database for instance, and runs
    /// before the limiter decides. Clients with invented keys cause lookups too: cache the results
    /// for a while, or put a second layer by address around this one.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use tollgate::Memory;
    /// use tollgate_http::{Caller, Gate};
    ///
    /// struct Database {
    ///     accounts: HashMap<Vec<u8>, String>,
    /// }
    ///
    /// impl Database {
    ///     async fn account_of(&self, api_key: &[u8]) -> Option<&String> {
    ///         self.accounts.get(api_key)
    ///     }
    /// }
    ///
    /// let database = Database { accounts: HashMap::from([(b"s3cret".to_vec(), "acme".into())]) };
    /// let gate = Gate::new(Memory::new().limiter("100/minute")?)
    ///     .callers(database, |database, head| {
    ///         let api_key = head.line("x-api-key").map(<[u8]>::to_vec);
    ///         async move { database.account_of(&api_key?).await.map(Caller::new) }
    ///     });
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[doc(alias = "user")]
    #[doc(alias = "api_key")]
    pub fn callers<S, F>(
        self,
        state: S,
        find: impl Fn(Arc<S>, &Head<'_>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        S: Send + Sync + 'static,
        F: Future<Output = Option<Caller<D>>> + Send + 'static,
    {
        self.change(|rules| rules.callers = Some(caller_lookup(state, find)))
    }

    /// Sets how requests without a key are treated. Default: they share one bucket.
    #[must_use]
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.change(|rules| rules.on_missing = on_missing)
    }

    /// The cost of a request. Default: one unit. A request of cost zero always passes: return zero
    /// only for requests that a client cannot choose.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.change(|rules| rules.cost = Some(Arc::new(cost)))
    }

    /// Exempts requests from the limit. The client chooses method, path and headers: exempt only
    /// requests that it may send without end. [`OnMissing::Refuse`] still refuses a request without
    /// a key.
    #[must_use]
    pub fn exempt(
        self,
        exempt: impl Fn(&Head<'_>, &RequestKey) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.change(|rules| rules.exempt = Some(Arc::new(exempt)))
    }

    /// Changes the cost of a request by its response.
    #[must_use]
    pub fn settle(self, settle: SettleBy) -> Self {
        self.change(|rules| rules.settle = Some(settle))
    }

    /// Keeps the [decision](crate::AdmittedRequest::request) of each request that passes, for
    /// middleware that hands it to handlers. Default: only gates that [settle](Gate::settle) do,
    /// because to keep it costs as much as to make it.
    #[must_use]
    pub fn keep_decisions(self) -> Self {
        self.change(|rules| rules.keeps_decisions = true)
    }

    /// The headers of responses.
    #[must_use]
    pub fn headers(self, headers: Headers) -> Self {
        self.change(|rules| rules.headers = headers)
    }

    /// Lets a request wait for its turn for up to `timeout` instead of refusing it. Default: zero.
    #[must_use]
    pub fn wait(self, timeout: Duration) -> Self {
        self.change(|rules| rules.wait = timeout)
    }

    /// Decides, counts and reports, and lets every request pass: to see what a limit would do.
    #[must_use]
    pub fn shadow(self) -> Self {
        self.change(|rules| rules.shadow = true)
    }

    /// Does not count CORS preflight requests: `OPTIONS` with an `Origin` and with a method in
    /// `Access-Control-Request-Method`. They are counted by default.
    ///
    /// Anybody can send such a request, so do this only where a CORS layer behind the limit answers
    /// all of them: a handler that takes any method would be reached without a limit. Better is a
    /// CORS layer around the limit, which answers preflights before they are counted. A preflight
    /// has no API key and no cookie: where [`OnMissing::Refuse`] refuses requests without a key, it
    /// is refused too.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// # use tollgate_http::Gate;
    /// let gate = Gate::new(Memory::new().limiter("100/minute")?).exempt_preflight();
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[doc(alias = "cors")]
    pub fn exempt_preflight(self) -> Self {
        self.change(|rules| rules.exempts_preflight = true)
    }

    /// The status of a refusal. Default 429.
    #[must_use]
    pub fn status(self, status: u16) -> Self {
        self.change(|rules| rules.status = status)
    }

    /// Refusals have the body `application/problem+json`, for programs.
    #[must_use]
    pub fn problem_json(self) -> Self {
        self.change(|rules| rules.problem = true)
    }

    /// Whether a decision needs more of a request than its peer. If not, a framework need not look
    /// for the [route](Head::route) and the [nested path](Head::nested_path).
    #[must_use]
    #[inline]
    pub fn reads_head(&self) -> bool {
        let rules = &*self.rules;
        rules.cost.is_some()
            || rules.exempt.is_some()
            || rules.exempts_preflight
            || rules.chooser.has_choice()
            || !rules.key.is_address()
            || rules.callers.is_some()
    }
}
