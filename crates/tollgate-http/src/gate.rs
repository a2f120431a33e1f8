//! The way of a request, once for all frameworks: who is it, which limiter, what cost, may it pass,
//! what does the response change.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::{Decision, Error};

use crate::callers::{Caller, Callers};
use crate::chooser::{Choice, Chooser, Chosen, Found};
use crate::count::{Counted, Stopwatch, unasked};
use crate::decider::Decider;
use crate::foreseen::Foreseen;
use crate::head::Head;
use crate::headers::{Headers, text};
use crate::key_by::{KeyBy, RequestKey};
use crate::pass::Pass;
use crate::preflight::is_preflight;
use crate::settle::SettleBy;
use crate::told::Told;
use crate::verdict::{AtOnce, Question, Verdict};

/// What to do with a request that has no key.
///
/// ```
/// assert_eq!(tollgate_http::OnMissing::default(), tollgate_http::OnMissing::Share);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// All of them share one bucket.
    #[default]
    Share,
    /// It is refused, with this status.
    Refuse(u16),
}

type CostFn = dyn Fn(&Head<'_>) -> u64 + Send + Sync;
type ExemptFn = dyn Fn(&Head<'_>, &RequestKey) -> bool + Send + Sync;

/// Everything that is decided about requests. A middleware is this and a translation.
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
    callers: Option<Callers<D>>,
    on_missing: OnMissing,
    cost: Option<Arc<CostFn>>,
    exempt: Option<Arc<ExemptFn>>,
    settle: Option<SettleBy>,
    headers: Headers,
    wait: Duration,
    shadow: bool,
    exempts_preflight: bool,
    status: u16,
    problem: bool,
    warned_missing_key: Arc<AtomicBool>,
}

impl<D: Decider> Rules<D> {
    /// Whether a function looks at the head of requests, beside those that find key and limiter.
    fn reads_more_than_key(&self) -> bool {
        self.cost.is_some() || self.exempt.is_some() || self.exempts_preflight
    }
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
    /// One limiter for all requests, by the address of the peer.
    ///
    /// See the example of [`Gate`].
    #[must_use]
    pub fn new(limiter: D) -> Gate<D> {
        Gate::choosing(Chooser::one(limiter))
    }

    /// A limiter for each request.
    ///
    /// See the examples of [`Chooser`].
    #[must_use]
    pub fn choosing(chooser: Chooser<D>) -> Gate<D> {
        Gate {
            rules: Arc::new(Rules {
                chooser,
                key: KeyBy::default(),
                callers: None,
                on_missing: OnMissing::default(),
                cost: None,
                exempt: None,
                settle: None,
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

    /// Changes a rule, here only: clones that are in use keep theirs.
    fn change(mut self, change: impl FnOnce(&mut Rules<D>)) -> Self {
        change(Arc::make_mut(&mut self.rules));
        self
    }

    /// What is limited. Default: the address of the peer.
    #[must_use]
    pub fn key(self, key: KeyBy) -> Self {
        self.change(|rules| rules.key = key)
    }

    /// Looks up who sends a request, by an API key for instance. A known caller is limited by its
    /// id, and everybody else by the [key](Gate::key) of the request, which is the address unless
    /// you say otherwise: an invented API key has no bucket of its own.
    ///
    /// The function gets a handle to `state` for each request, a database for instance, and is
    /// called before the limit is asked. Whoever sends invented keys makes it look them up: keep
    /// what it finds for a while, or put a second layer by address around this one.
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
        self.change(|rules| rules.callers = Some(Callers::new(state, find)))
    }

    /// What to do with a request without a key. Default: they share one bucket.
    #[must_use]
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.change(|rules| rules.on_missing = on_missing)
    }

    /// What a request costs. Default: one unit. A request of cost zero always passes: give zero
    /// only for what a client cannot choose.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.change(|rules| rules.cost = Some(Arc::new(cost)))
    }

    /// Requests that are not limited. The client chooses method, path and headers: exempt only what
    /// it may send without end. A request without a key is still refused where
    /// [`OnMissing::Refuse`] says so.
    #[must_use]
    pub fn exempt(
        self,
        exempt: impl Fn(&Head<'_>, &RequestKey) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.change(|rules| rules.exempt = Some(Arc::new(exempt)))
    }

    /// What the response changes in the cost.
    #[must_use]
    pub fn settle(self, settle: SettleBy) -> Self {
        self.change(|rules| rules.settle = Some(settle))
    }

    /// Which headers responses get.
    #[must_use]
    pub fn headers(self, headers: Headers) -> Self {
        self.change(|rules| rules.headers = headers)
    }

    /// Waits for up to that long instead of refusing. Default: not at all.
    #[must_use]
    pub fn wait(self, timeout: Duration) -> Self {
        self.change(|rules| rules.wait = timeout)
    }

    /// Decides, counts and reports, and lets everything pass: to see what a limit would do.
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

    /// Refusals have a body that programs can read: `application/problem+json`.
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
        rules.reads_more_than_key()
            || rules.chooser.only().is_none()
            || !rules.key.is_address()
            || rules.callers.is_some()
    }

    /// Looks at a request: everything that needs its head.
    #[must_use]
    pub fn question(&self, head: &Head<'_>) -> Question<D> {
        match self.key_of(head) {
            Ok(key) => self.choice(head, key),
            Err(settled) => settled,
        }
    }

    /// Looks at a request and, if nobody has to be waited for and its response changes nothing,
    /// decides: the way of most requests, with as little in hand as can be.
    #[must_use]
    #[inline]
    pub fn at_once(&self, head: &Head<'_>) -> AtOnce<D> {
        let rules = &*self.rules;
        if !self.answers_at_once() {
            return AtOnce::Not(self.question(head));
        }
        let key = match self.key_of(head) {
            Ok(key) => key,
            Err(settled) => return AtOnce::Not(settled),
        };
        let (Found::Rule(Some(chosen)) | Found::Usual(chosen)) = rules.chooser.find(head) else {
            return AtOnce::Not(self.choice(head, key));
        };
        let cost = self.cost_of(head);
        let watch = Stopwatch::start();
        let hit = chosen.limiter.hit_now(&key, cost);
        self.answer(watch, chosen, cost, hit, || key)
    }

    /// Whether nobody has to be waited for, and no response either.
    #[inline]
    fn answers_at_once(&self) -> bool {
        let rules = &*self.rules;
        D::AT_ONCE && rules.wait.is_zero() && rules.settle.is_none() && rules.callers.is_none()
    }

    /// What is asked for each request of a connection, where nothing but its peer counts and the
    /// answer is there [at once](Gate::at_once).
    ///
    /// ```
    /// use tollgate::Memory;
    /// use tollgate_http::{AtOnce, Gate};
    ///
    /// let gate = Gate::new(Memory::new().limiter("100/minute")?);
    /// let Some(foreseen) = gate.foresee([192, 0, 2, 1].into()) else { panic!() };
    /// assert!(matches!(gate.foreseen(&foreseen), AtOnce::Passes(_)));
    /// assert!(gate.cost(|head| 2).foresee([192, 0, 2, 1].into()).is_none());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn foresee(&self, peer: IpAddr) -> Option<Foreseen<D>> {
        let rules = &*self.rules;
        let same = self.answers_at_once() && !rules.reads_more_than_key();
        let (key, chosen) = (rules.key.of_peer(peer)?, rules.chooser.only()?);
        same.then(|| Foreseen::new(key, Arc::clone(chosen)))
    }

    /// [`at_once`](Gate::at_once) for a request that was [foreseen](Gate::foresee).
    ///
    /// See the example of [`foresee`](Gate::foresee).
    #[must_use]
    #[inline]
    pub fn foreseen(&self, foreseen: &Foreseen<D>) -> AtOnce<D> {
        let Foreseen { key, framed, chosen } = foreseen;
        let watch = Stopwatch::start();
        let hit = chosen.limiter.hit_now(framed, 1);
        self.answer(watch, chosen, 1, hit, || key.clone())
    }

    /// What becomes of a request that was decided on at once, or could not be.
    #[inline(always)]
    fn answer(
        &self,
        watch: Stopwatch,
        chosen: &Arc<Chosen<D>>,
        cost: u64,
        hit: Option<Result<Decision, Error>>,
        key: impl FnOnce() -> RequestKey,
    ) -> AtOnce<D> {
        if let Some(Ok(outcomes)) = &hit
            && outcomes.allowed()
        {
            watch.decided(chosen.shown.label(outcomes.headline_index()), Counted::Allowed);
            return AtOnce::Passes(self.told_of(chosen, outcomes));
        }
        let (chosen, key) = (Arc::clone(chosen), key());
        match hit {
            Some(outcomes) => AtOnce::Decided(self.verdict(watch, chosen, key, cost, outcomes)),
            None => AtOnce::Not(Question::Ask { key, cost, choice: Choice::Now(Some(chosen)) }),
        }
    }

    /// The key of a request, or what is settled without asking a limiter. A request without a key
    /// never gets as far as the exemptions.
    #[inline(always)]
    fn key_of(&self, head: &Head<'_>) -> Result<RequestKey, Question<D>> {
        let rules = &*self.rules;
        let key = self.found_key(head)?;
        let exempt = rules.exempt.as_ref().is_some_and(|exempt| exempt(head, &key))
            || (rules.exempts_preflight && is_preflight(head));
        if exempt { Err(skip()) } else { Ok(key) }
    }

    fn found_key(&self, head: &Head<'_>) -> Result<RequestKey, Question<D>> {
        match (self.rules.key.find(head), self.rules.on_missing) {
            (Some(key), _) => Ok(key),
            (None, OnMissing::Share) => {
                self.warn_missing_key();
                Ok(RequestKey::everyone())
            }
            (None, OnMissing::Refuse(status)) => {
                tracing::debug!("refused a request without a key");
                unasked(Counted::Denied);
                Err(Question::NoKey(status))
            }
        }
    }

    fn choice(&self, head: &Head<'_>, key: RequestKey) -> Question<D> {
        let rules = &*self.rules;
        let choice = match (&rules.callers, rules.chooser.find(head)) {
            (_, Found::Rule(None)) => return skip(),
            (Some(callers), found) => callers.choose(head, &found),
            (None, _) => rules.chooser.choose(head),
        };
        Question::Ask { key, cost: self.cost_of(head), choice }
    }

    #[inline]
    fn cost_of(&self, head: &Head<'_>) -> u64 {
        self.rules.cost.as_ref().map_or(1, |cost| cost(head))
    }

    /// Warns once: a server that does not pass on addresses shares one bucket among all of its
    /// clients.
    fn warn_missing_key(&self) {
        if !self.rules.warned_missing_key.swap(true, Ordering::Relaxed) {
            tracing::warn!(key = ?self.rules.key, "a request has no key: all of them share one bucket");
        }
    }

    /// Decides; `sleep` is the timer of the runtime, for gates that wait.
    pub async fn decide<F: Future<Output = ()> + Send>(
        &self,
        key: RequestKey,
        cost: u64,
        choice: Choice<D>,
        sleep: impl Fn(Duration) -> F + Send + Sync,
    ) -> Verdict<D> {
        let watch = Stopwatch::start();
        let (key, chosen) = match choice {
            Choice::Now(chosen) => (key, chosen),
            Choice::Later(find) => {
                let found = find.await;
                (found.caller.unwrap_or(key), found.limiter)
            }
        };
        let Some(chosen) = chosen else {
            unasked(Counted::Unlimited);
            return Verdict::Unlimited;
        };
        let wait = self.rules.wait;
        let outcomes = if wait.is_zero() {
            chosen.limiter.hit(&key, cost).await
        } else {
            chosen.limiter.wait(&key, cost, wait, sleep).await
        };
        self.verdict(watch, chosen, key, cost, outcomes)
    }

    /// Decides without a future, where nobody has to be waited for: the limiter is known and
    /// [answers at once](Decider::AT_ONCE), and the gate does not wait. Else gives back what
    /// [`decide`](Gate::decide) takes.
    ///
    /// # Errors
    /// What was passed, when it needs `decide`.
    #[inline]
    pub fn decide_now(
        &self,
        key: RequestKey,
        cost: u64,
        choice: Choice<D>,
    ) -> Result<Verdict<D>, (RequestKey, u64, Choice<D>)> {
        if !D::AT_ONCE || !self.rules.wait.is_zero() {
            return Err((key, cost, choice));
        }
        let chosen = match choice {
            Choice::Now(Some(chosen)) => chosen,
            Choice::Now(None) | Choice::Later(_) => return Err((key, cost, choice)),
        };
        let watch = Stopwatch::start();
        match chosen.limiter.hit_now(&key, cost) {
            Some(outcomes) => Ok(self.verdict(watch, chosen, key, cost, outcomes)),
            None => Err((key, cost, Choice::Now(Some(chosen)))),
        }
    }

    #[inline]
    fn verdict(
        &self,
        watch: Stopwatch,
        chosen: Arc<Chosen<D>>,
        key: RequestKey,
        cost: u64,
        outcomes: Result<Decision, Error>,
    ) -> Verdict<D> {
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => {
                tracing::warn!(%error, "the store did not decide on a request");
                watch.decided(chosen.shown.label(0), Counted::Error);
                return Verdict::Failed(error);
            }
        };
        let counted = match (outcomes.allowed(), self.rules.shadow) {
            (true, _) => Counted::Allowed,
            (false, false) => Counted::Denied,
            (false, true) => Counted::Shadow,
        };
        let label = chosen.shown.label(outcomes.headline_index());
        watch.decided(label, counted);
        if counted != Counted::Allowed {
            let limit = label.map(|label| &**label).unwrap_or_default();
            tracing::debug!(limit, shadow = self.rules.shadow, "refused a request");
        }
        // Made where it is handed out: it is large.
        if counted == Counted::Denied {
            Verdict::Refuse(Pass { chosen, key, cost, outcomes })
        } else {
            Verdict::Pass(Pass { chosen, key, cost, outcomes })
        }
    }

    /// How responses change the cost, if they do.
    #[must_use]
    pub fn settles(&self) -> Option<&SettleBy> {
        self.rules.settle.as_ref()
    }

    /// What the headers of a response say; `None` if it gets none.
    #[must_use]
    #[inline]
    pub fn told(&self, pass: &Pass<D>) -> Option<Told> {
        self.told_of(&pass.chosen, &pass.outcomes)
    }

    #[inline]
    fn told_of(&self, chosen: &Chosen<D>, outcomes: &Decision) -> Option<Told> {
        let headers = &self.rules.headers;
        if !headers.tells(outcomes.allowed()) {
            return None;
        }
        if self.rules.shadow {
            // Nobody was refused: nobody is told to stay away.
            return Told::new(&headers.clone().retry_after(false), &chosen.shown, outcomes);
        }
        Told::new(headers, &chosen.shown, outcomes)
    }

    /// The headers of a response.
    pub fn write_headers(&self, pass: &Pass<D>, mut out: impl FnMut(&'static str, String)) {
        if let Some(told) = self.told(pass) {
            told.write(|field, value| out(field.name(), text(&value)));
        }
    }

    /// The status of a refusal.
    #[must_use]
    pub fn refusal_status(&self) -> u16 {
        self.rules.status
    }

    /// The media type and the body of a refusal.
    #[must_use]
    pub fn refusal_body(&self, pass: &Pass<D>) -> (&'static str, String) {
        if self.rules.problem {
            let outcomes = pass.outcomes.outcomes();
            let body = crate::problem::problem(self.rules.status, pass.limits(), outcomes);
            return (crate::problem::PROBLEM_JSON, body);
        }
        ("text/plain; charset=utf-8", crate::refusal::text(&pass.outcomes))
    }
}

/// Not limited.
fn skip<D: Decider>() -> Question<D> {
    unasked(Counted::Unlimited);
    Question::Skip
}
