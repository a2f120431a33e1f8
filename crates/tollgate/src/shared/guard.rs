//! The guard between callers and a store: a deadline on every call, a breaker for each lane,
//! remembered denials, counters.

use std::future::{Future, poll_fn};
use std::hash::BuildHasher;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

use foldhash::fast::RandomState;

pub(super) use super::breaker::Health;
use super::breaker::{Breaker, Permission, Settings, Turn};
use super::denials::Denials;
use super::load::{End, Load};
use super::runtime::{NoRuntime, Runtime};
use super::stats::{Counters, Stats};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, ErrorKind};
use crate::memory::Memory;
use crate::registry::lock;
use crate::time::{Timestamp, micros_up};

/// Keeps a store that fails from holding up its callers. One for each store, shared by its handles
/// and limiters.
///
/// ```
/// use std::time::Duration;
/// use tollgate::shared::Guard;
///
/// let guard = Guard::builder().deadline(Duration::from_millis(20)).open_after(10).build();
/// assert_eq!(guard.stats().answered, 0);
/// ```
#[derive(Debug)]
pub struct Guard {
    name: Box<str>,
    deadline: Duration,
    breaker: Settings,
    lanes: Box<[Mutex<Lane>]>,
    clock: Arc<dyn Clock>,
    jitter: RandomState,
    pub(crate) denials: Denials,
    pub(crate) counters: Counters,
    /// Whether the store is charged for what fallbacks admitted.
    pub(crate) charges_local: bool,
    /// Where limiters fall back to; made when the first of them wants it.
    fallback: OnceLock<Memory<Arc<dyn Clock>>>,
    runtime: Arc<dyn Runtime>,
    on_open: OnOpen,
}

/// The function of a store that runs when a breaker opens.
#[derive(Clone)]
struct OnOpen(Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for OnOpen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnOpen")
    }
}

/// One part of the store, which fails or is overloaded as a whole.
#[derive(Debug)]
struct Lane {
    breaker: Breaker,
    load: Load,
}

impl Lane {
    fn new() -> Lane {
        Lane { breaker: Breaker::new(), load: Load::new() }
    }
}

/// The settings of a [`Guard`].
///
/// See the example of [`Guard`].
#[derive(Clone, Debug)]
pub struct GuardBuilder {
    name: Option<Box<str>>,
    deadline: Duration,
    failures: u32,
    pause: Duration,
    longest_pause: Duration,
    lanes: usize,
    denials: usize,
    denials_for: Duration,
    charge_local: bool,
    clock: Arc<dyn Clock>,
    on_open: OnOpen,
}

impl Default for Guard {
    fn default() -> Self {
        Guard::builder().build()
    }
}

impl Guard {
    /// The deadline of calls unless told otherwise: 100 ms.
    ///
    /// A store that is near answers within a millisecond, but a busy processor lets a caller or the
    /// store wait for tens of milliseconds, and a call that is given up may have been charged. A
    /// longer deadline costs little: when the store is gone, the breaker answers all but the first
    /// calls without waiting.
    pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(100);

    /// For how long a denial is remembered at most, unless told otherwise.
    pub const DEFAULT_DENIALS_FOR: Duration = Duration::from_secs(2);

    /// How many failures in a row open a breaker unless told otherwise.
    pub const DEFAULT_OPEN_AFTER: u32 = 5;

    /// How long a breaker stays open at first, and at most, unless told otherwise.
    pub const DEFAULT_PAUSES: (Duration, Duration) =
        (Duration::from_millis(100), Duration::from_secs(5));

    /// How many denials are remembered unless told otherwise.
    pub const DEFAULT_DENIALS: usize = 100_000;

    /// A guard with settings of your own. The defaults: calls end after 100 ms, five failures in a
    /// row open a breaker, the first probe comes 100 ms later and probes that fail double that up
    /// to 5 s, 100,000 denials are remembered for up to 2 s, and what a local fallback admitted is
    /// charged to the store when it answers again.
    ///
    /// See the example of [`Guard`].
    #[must_use]
    pub fn builder() -> GuardBuilder {
        let (pause, longest_pause) = Guard::DEFAULT_PAUSES;
        GuardBuilder {
            name: None,
            deadline: Guard::DEFAULT_DEADLINE,
            failures: Guard::DEFAULT_OPEN_AFTER,
            pause,
            longest_pause,
            lanes: 1,
            denials: Guard::DEFAULT_DENIALS,
            denials_for: Guard::DEFAULT_DENIALS_FOR,
            charge_local: true,
            clock: Arc::new(SystemClock::new()),
            on_open: OnOpen(Arc::new(|| {})),
        }
    }

    /// How calls were answered so far.
    ///
    /// See the example of [`Guard`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    /// Forgets all remembered denials: for stores, around whatever gives back more than one key.
    ///
    /// ```
    /// tollgate::shared::Guard::default().forget_denials();
    /// ```
    pub fn forget_denials(&self) {
        self.denials.clear();
    }

    /// Forgets the remembered denials of all keys with this digest: for stores that hear from other
    /// processes that a key was reset, set or refunded. Also a denial that was decided before this
    /// call and arrives after it is not remembered.
    ///
    /// ```
    /// use tollgate::{Key, shared::Guard};
    /// let heard = "alice".with_key(|key| key.digest());
    /// Guard::default().forget_digest(heard);
    /// ```
    pub fn forget_digest(&self, digest: u16) {
        self.denials.forget_digest(digest);
    }

    /// Whether denials are remembered. If not, a store need not tell or hear of changed keys.
    ///
    /// ```
    /// use tollgate::shared::Guard;
    /// assert!(Guard::default().remembers_denials());
    /// assert!(!Guard::builder().remember_denials(0).build().remembers_denials());
    /// ```
    #[must_use]
    pub fn remembers_denials(&self) -> bool {
        self.denials.any()
    }

    /// How long a call may take: for stores that can tell their server.
    ///
    /// ```
    /// use std::time::Duration;
    /// assert_eq!(tollgate::shared::Guard::default().deadline(), Duration::from_millis(100));
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The name of the store in the log; empty if none was set.
    ///
    /// ```
    /// use tollgate::shared::Guard;
    /// assert_eq!(Guard::builder().name("redis").build().name(), "redis");
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The runtime of the store.
    ///
    /// ```
    /// use std::time::Duration;
    /// # async fn example() {
    /// tollgate::shared::Guard::default().runtime().sleep(Duration::from_millis(5)).await;
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// Acts as if a breaker had opened: a connection that looks alive may be dead. For stores on
    /// top of other stores.
    ///
    /// See the example of [`GuardBuilder::on_open`].
    pub fn suspect(&self) {
        (self.on_open.0)();
    }

    /// The time of this process, never the store's.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn fallback(&self) -> &Memory<Arc<dyn Clock>> {
        self.fallback.get_or_init(|| Memory::builder().clock(Arc::clone(&self.clock)).build())
    }

    /// How many microseconds pass before this lane is asked again: the wait of a caller that is
    /// denied because the store did not answer.
    pub(crate) fn pause_left(&self, lane: usize) -> u64 {
        lock(self.lane(lane)).breaker.pause_left(&self.breaker, self.now())
    }

    pub(super) fn health(&self, lane: usize) -> Health {
        let now = self.now();
        lock(self.lane(lane)).breaker.health(now)
    }

    fn lane(&self, lane: usize) -> &Mutex<Lane> {
        &self.lanes[lane % self.lanes.len()]
    }

    /// Jitter in thousandths.
    fn jitter(&self, now: Timestamp) -> u64 {
        self.jitter.hash_one(now) % 1001
    }

    /// One call, unless the breaker of its lane is open, and for no longer than the deadline.
    pub(crate) async fn call<T, F>(
        &self,
        lane: usize,
        deadline: Duration,
        begin: impl FnOnce(Duration) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let pass = Pass::enter(self, lane, deadline)?;
        let result = self.within(deadline, begin(deadline)).await;
        // Impatience of a caller says nothing about the store.
        let impatient =
            deadline < self.deadline && matches!(&result, Err(e) if e.kind() == ErrorKind::Lost);
        if pass.judge(&result, impatient) == Turn::Opened {
            self.suspect();
        }
        result
    }

    /// `call`, or [`Error::lost`] when it takes longer than the deadline.
    pub(crate) async fn within<T>(
        &self,
        deadline: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut call = pin!(call);
        let mut timer = self.runtime.sleep(deadline);
        poll_fn(|cx| match call.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => timer
                .as_mut()
                .poll(cx)
                .map(|()| Err(Error::lost(format!("none within the deadline of {deadline:?}")))),
        })
        .await
    }
}

/// Permission to ask. Dropped without an answer it says nothing about the store, but if it was a
/// probe, the next call may probe.
struct Pass<'a> {
    guard: &'a Guard,
    lane: &'a Mutex<Lane>,
    entered: Timestamp,
    deadline: Duration,
    probe: bool,
    judged: bool,
    end: End,
}

impl<'a> Pass<'a> {
    fn enter(guard: &'a Guard, lane: usize, deadline: Duration) -> Result<Self, Error> {
        let now = guard.now();
        // Some callers are more patient than others. The store is not to blame for those who are
        // less.
        let deadline = deadline.max(guard.deadline);
        let lane = guard.lane(lane);
        let pass = |probe| Pass {
            guard,
            lane,
            entered: now,
            deadline,
            probe,
            judged: false,
            end: End::Other,
        };
        let mut locked = lock(lane);
        match locked.breaker.enter(&guard.breaker, now) {
            Permission::Ask => match locked.load.enter() {
                Ok(()) => Ok(pass(false)),
                Err(bound) => {
                    guard.counters.shed.add();
                    Err(Error::overloaded(format!(
                        "{bound} calls are under way, as many as it answers within the deadline"
                    )))
                }
            },
            Permission::Probe => {
                let store = guard.name();
                tracing::debug!(
                    store,
                    "asking a store that failed, to see whether it answers again"
                );
                locked.load.enter_anyway();
                Ok(pass(true))
            }
            Permission::Wait(until) => {
                guard.counters.skipped.add();
                let left = until.since(now);
                Err(Error::unavailable(format!("it failed too often; asked again in {left:?}")))
            }
        }
    }

    fn judge<T>(mut self, result: &Result<T, Error>, impatient: bool) -> Turn {
        let Pass { guard, lane, entered, deadline, probe, .. } = self;
        self.end = match result {
            Ok(_) => End::Answered,
            Err(error) if error.kind() == ErrorKind::Store => End::Answered,
            Err(error)
                if error.kind() == ErrorKind::Lost && guard.now().since(entered) >= deadline =>
            {
                End::Late
            }
            Err(_) => End::Other,
        };
        let turn = match result {
            Err(error) if !error.is_of_store() => return Turn::Nothing,
            // The store's client did not send the call, so this says nothing about the store.
            Err(error) if error.is_overload() => {
                guard.counters.shed.add();
                return Turn::Nothing;
            }
            Err(_) if impatient => Turn::Nothing,
            Err(error) if error.kind() != ErrorKind::Store => {
                let now = guard.now();
                lock(lane).breaker.failed(&guard.breaker, now, probe, guard.jitter(now))
            }
            // An error about this key: the store answers.
            Ok(_) | Err(_) => lock(lane).breaker.succeeded(),
        };
        self.judged = !impatient;
        let counters = &guard.counters;
        match result {
            Ok(_) => counters.answered.add(),
            Err(error) => {
                match error.kind() {
                    ErrorKind::Unavailable => counters.unavailable.add(),
                    ErrorKind::Lost => counters.lost.add(),
                    _ => counters.refused.add(),
                }
                tracing::debug!(store = guard.name(), %error, "the store did not decide");
            }
        }
        match turn {
            Turn::Opened => {
                counters.opened.add();
                let store = guard.name();
                match result {
                    Err(error) => {
                        tracing::warn!(store, %error, "breaker opened: the store failed too often in a row");
                    }
                    Ok(_) => tracing::warn!(store, "breaker opened"),
                }
            }
            Turn::Closed => {
                counters.closed.add();
                tracing::info!(store = guard.name(), "breaker closed: the store answers again");
            }
            Turn::Nothing => {}
        }
        turn
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let now = self.guard.now();
        let mut lane = lock(self.lane);
        lane.load.leave(micros_up(self.deadline), self.entered, now, self.end);
        if self.probe && !self.judged {
            lane.breaker.abandoned(now);
        }
    }
}

impl GuardBuilder {
    /// Sets the name of the store in the log, without secrets. The first name stays, so that a store
    /// can name itself if its user did not.
    ///
    /// ```
    /// use tollgate::shared::Guard;
    /// let guard = Guard::builder().name("redis of the shop").name("redis").build();
    /// assert_eq!(guard.name(), "redis of the shop");
    /// ```
    #[must_use]
    pub fn name(mut self, name: impl Into<Box<str>>) -> Self {
        self.name.get_or_insert_with(|| name.into());
        self
    }

    /// How long a call may take. Default 100 ms: see [`Guard::DEFAULT_DEADLINE`].
    ///
    /// See the example of [`Guard`].
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How many failures in a row open a breaker, at least one. Default 5.
    ///
    /// See the example of [`Guard`].
    #[must_use]
    pub fn open_after(mut self, failures: u32) -> Self {
        self.failures = failures.max(1);
        self
    }

    /// How long a breaker stays open before the first probe, and at most when probes fail. Default
    /// 100 ms and 5 s.
    ///
    /// ```
    /// use std::time::Duration;
    /// let guard = tollgate::shared::Guard::builder()
    ///     .pause(Duration::from_millis(10), Duration::from_secs(1))
    ///     .build();
    /// ```
    #[must_use]
    pub fn pause(mut self, first: Duration, longest: Duration) -> Self {
        self.pause = first;
        self.longest_pause = longest.max(first);
        self
    }

    /// How many breakers: one for each part of the store that fails on its own. For stores; default
    /// one.
    ///
    /// ```
    /// let guard = tollgate::shared::Guard::builder().lanes(64).build();
    /// ```
    #[must_use]
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes.max(1);
        self
    }

    /// How many denials are remembered at most; 0 asks the store every time. Default 100,000.
    ///
    /// ```
    /// let guard = tollgate::shared::Guard::builder().remember_denials(0).build();
    /// ```
    #[must_use]
    pub fn remember_denials(mut self, denials: usize) -> Self {
        self.denials = denials;
        self
    }

    /// For how long a denial is remembered at most. Default 2 seconds. Then the store is asked
    /// again, so this is how late a process may see what others gave back or reset, and a store
    /// that lost its state. `Duration::MAX` remembers a denial for as long as it lasts.
    ///
    /// ```
    /// use std::time::Duration;
    /// let guard = tollgate::shared::Guard::builder().denials_for(Duration::from_secs(1)).build();
    /// ```
    #[must_use]
    pub fn denials_for(mut self, longest: Duration) -> Self {
        self.denials_for = longest;
        self
    }

    /// Whether the store is charged, when it answers again, for what limiters with
    /// [`OnFailure::Local`](super::OnFailure::Local) admitted without it. Default true. Without
    /// that each outage can admit the share of the limit once more.
    ///
    /// Units are charged as far as the limit would still count them, before the next call about
    /// their key and within about 100 ms for keys that nobody asks for. A hit whose answer was lost
    /// and that was then admitted locally may be charged twice. Units are not charged if this
    /// process ends first, if the answer to their charge is lost, beyond 100,000 keys of one
    /// limiter, or if they were admitted at a given time.
    ///
    /// ```
    /// let guard = tollgate::shared::Guard::builder().charge_local(false).build();
    /// ```
    #[must_use]
    pub fn charge_local(mut self, charge: bool) -> Self {
        self.charge_local = charge;
        self
    }

    /// Another clock for this process: for tests.
    ///
    /// ```
    /// use tollgate::{ManualClock, Timestamp, shared::Guard};
    /// let guard = Guard::builder().clock(ManualClock::new(Timestamp::EPOCH)).build();
    /// ```
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets a function that runs when a breaker opens, because a connection that looks alive may be
    /// dead. For stores. It must not block.
    ///
    /// ```
    /// use tollgate::shared::Guard;
    /// let guard = Guard::builder().on_open(|| println!("connect anew")).build();
    /// guard.suspect();
    /// ```
    #[must_use]
    pub fn on_open(mut self, act: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_open = OnOpen(Arc::new(act));
        self
    }

    /// The guard of a store that never waits: its timer looks at the clock of the guard whenever it
    /// is polled, and it polls a task once.
    ///
    /// See the example of [`Guard`].
    #[must_use]
    pub fn build(self) -> Guard {
        let clock = Arc::clone(&self.clock);
        self.build_on(NoRuntime(clock))
    }

    /// The guard of a store that lives on this runtime.
    ///
    /// See the example of [`Runtime`].
    #[must_use]
    pub fn build_on(self, runtime: impl Runtime) -> Guard {
        Guard {
            name: self.name.unwrap_or_default(),
            deadline: self.deadline,
            breaker: Settings {
                failures: self.failures,
                pause: micros_up(self.pause).max(1),
                longest_pause: micros_up(self.longest_pause).max(1),
                span: micros_up(self.deadline).saturating_mul(2),
            },
            lanes: (0..self.lanes).map(|_| Mutex::new(Lane::new())).collect(),
            clock: self.clock,
            jitter: RandomState::default(),
            denials: Denials::new(self.denials, micros_up(self.denials_for)),
            counters: Counters::default(),
            charges_local: self.charge_local,
            fallback: OnceLock::new(),
            runtime: Arc::new(runtime),
            on_open: self.on_open,
        }
    }
}
