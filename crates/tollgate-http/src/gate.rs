//! The way of a request, once for all frameworks: who is it, which limiter, what cost, may it pass, what does the response change.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::Error;

use crate::chooser::{Choice, Chooser, Chosen, Found};
use crate::count::{Counted, Stopwatch, unasked};
use crate::decider::{Decider, Outcomes};
use crate::foreseen::Foreseen;
use crate::head::Head;
use crate::headers::{Headers, text};
use crate::key_by::{KeyBy, RequestKey};
use crate::pass::Pass;
use crate::settle::SettleBy;
use crate::told::Told;

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
pub struct Gate<D: Decider> {
    rules: Arc<Rules<D>>,
}

#[derive(Clone)]
struct Rules<D: Decider> {
    chooser: Chooser<D>,
    key: KeyBy,
    on_missing: OnMissing,
    cost: Option<Arc<CostFn>>,
    exempt: Option<Arc<ExemptFn>>,
    settle: Option<SettleBy>,
    headers: Headers,
    wait: Duration,
    shadow: bool,
    preflight: bool,
    status: u16,
    problem: bool,
    /// Whether somebody was told that requests have no key.
    told: Arc<AtomicBool>,
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

/// A request that has been looked at.
pub enum Question<D: Decider> {
    /// Not limited: a preflight, an exempt key, a route without a limit.
    Skip,
    /// Refused before anybody was asked: it has no key. The status to answer with.
    NoKey(u16),
    /// To be [decided](Gate::decide).
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

/// A request that was looked at, and decided on if that could be [at once](Gate::at_once).
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
    /// The store did not answer, and the limiter leaves that to its caller: 503 is the answer to give.
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
                on_missing: OnMissing::default(),
                cost: None,
                exempt: None,
                settle: None,
                headers: Headers::default(),
                wait: Duration::ZERO,
                shadow: false,
                preflight: false,
                status: 429,
                problem: false,
                told: Arc::default(),
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

    /// What to do with a request without a key. Default: they share one bucket.
    #[must_use]
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.change(|rules| rules.on_missing = on_missing)
    }

    /// What a request costs. Default: one unit.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.change(|rules| rules.cost = Some(Arc::new(cost)))
    }

    /// Requests that are not limited.
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

    /// Counts CORS preflight requests too (`OPTIONS` with `Access-Control-Request-Method`), which are free unless told so.
    #[must_use]
    pub fn count_preflight(self) -> Self {
        self.change(|rules| rules.preflight = true)
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

    /// Looks at a request: everything that needs its head.
    #[must_use]
    pub fn question(&self, head: &Head<'_>) -> Question<D> {
        match self.key_of(head) {
            Ok(key) => self.choice(head, key, self.rules.chooser.choose(head)),
            Err(settled) => settled,
        }
    }

    /// Looks at a request and, if nobody has to be waited for and its response changes nothing, decides: the way of most requests, with as little in hand as
    /// can be.
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
        let Found::Known(Some(chosen)) = rules.chooser.find(head) else {
            return AtOnce::Not(self.choice(head, key, rules.chooser.choose(head)));
        };
        let cost = self.cost_of(head);
        let watch = Stopwatch::start();
        let hit = chosen.limiter.hit_now(&key, cost);
        self.answer(watch, chosen, cost, hit, || key)
    }

    /// Whether nobody has to be waited for, and no response either.
    #[inline]
    fn answers_at_once(&self) -> bool {
        D::AT_ONCE && self.rules.wait.is_zero() && self.rules.settle.is_none()
    }

    /// What is asked for each request of a connection, where nothing but its peer counts and the answer is there [at once](Gate::at_once).
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
        let same = self.answers_at_once() && rules.cost.is_none() && rules.exempt.is_none();
        let (key, chosen) = (rules.key.of_peer(peer)?, rules.chooser.only()?);
        same.then(|| Foreseen::new(key, Arc::clone(chosen)))
    }

    /// [`at_once`](Gate::at_once) for a request that was [foreseen](Gate::foresee). `OPTIONS` is not: whether it counts is in its headers.
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
        hit: Option<Result<D::Outcomes, Error>>,
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

    /// Whose request it is, or what is settled without asking anybody.
    #[inline(always)]
    fn key_of(&self, head: &Head<'_>) -> Result<RequestKey, Question<D>> {
        let rules = &*self.rules;
        if !rules.preflight
            && head.method == "OPTIONS"
            && head.line("access-control-request-method").is_some()
        {
            return Err(skip());
        }
        let key = self.found_key(head)?;
        if rules.exempt.as_ref().is_some_and(|exempt| exempt(head, &key)) {
            return Err(skip());
        }
        Ok(key)
    }

    fn found_key(&self, head: &Head<'_>) -> Result<RequestKey, Question<D>> {
        match (self.rules.key.find(head), self.rules.on_missing) {
            (Some(key), _) => Ok(key),
            (None, OnMissing::Share) => {
                self.tell_of_missing_keys();
                Ok(RequestKey::everyone())
            }
            (None, OnMissing::Refuse(status)) => {
                tracing::debug!("refused a request without a key");
                unasked(Counted::Denied);
                Err(Question::NoKey(status))
            }
        }
    }

    fn choice(&self, head: &Head<'_>, key: RequestKey, choice: Choice<D>) -> Question<D> {
        match choice {
            Choice::Now(None) => skip(),
            choice => Question::Ask { key, cost: self.cost_of(head), choice },
        }
    }

    #[inline]
    fn cost_of(&self, head: &Head<'_>) -> u64 {
        self.rules.cost.as_ref().map_or(1, |cost| cost(head))
    }

    /// Once: a server that forgot to pass on addresses would share one bucket among all of its clients, and nobody would know why.
    fn tell_of_missing_keys(&self) {
        if !self.rules.told.swap(true, Ordering::Relaxed) {
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
        let chosen = match choice {
            Choice::Now(chosen) => chosen,
            Choice::Later(find) => find.await.map(Chosen::new),
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

    /// Decides without a future, where nobody has to be waited for: the limiter is known and [answers at once](Decider::AT_ONCE), and the gate does not
    /// wait. Else gives back what [`decide`](Gate::decide) takes.
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
        outcomes: Result<D::Outcomes, Error>,
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
    fn told_of(&self, chosen: &Chosen<D>, outcomes: &D::Outcomes) -> Option<Told> {
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
        let text = match pass.outcomes.headline().retry_after() {
            Some(wait) => {
                let seconds = crate::headers::seconds_up(wait).max(1);
                format!("too many requests: come back in {seconds} s\n")
            }
            None => "too much for one request: it costs more than the limit ever allows\n".into(),
        };
        ("text/plain; charset=utf-8", text)
    }
}

/// Not limited.
fn skip<D: Decider>() -> Question<D> {
    unasked(Counted::Unlimited);
    Question::Skip
}
