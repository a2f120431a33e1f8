//! The guard between callers and a store. It has a deadline for every call, a circuit breaker for
//! each lane (a part of the store that fails as a whole), remembered denials, and counters.

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
use crate::keyed::lock;
use crate::memory::Memory;
use crate::time::{Timestamp, micros_up};

/// Prevents a failing store from delaying its callers. Each store has one guard, which its handles
/// and limiters share.
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
    /// Whether the store is charged later for the units that fallbacks admitted.
    pub(crate) charges_local: bool,
    /// The memory store on which fallbacks decide. It is created when the first limiter needs it.
    fallback: OnceLock<Memory<Arc<dyn Clock>>>,
    runtime: Arc<dyn Runtime>,
    on_open: OnOpen,
}

/// The function that runs when a breaker opens.
#[derive(Clone)]
struct OnOpen(Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for OnOpen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnOpen")
    }
}

/// A part of the store that fails or is overloaded as a whole, such as one node of a cluster.
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
    /// The default deadline of calls: 100 ms.
    ///
    /// A nearby store answers within a millisecond. But on a busy processor the caller or the store
    /// may wait for tens of milliseconds, and a call that has timed out may have been charged. A
    /// longer deadline costs little: if the store is down, only the first calls wait, until the
    /// breaker opens.
    pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(100);

    /// The default for the longest time that a denial is remembered.
    pub const DEFAULT_DENIALS_FOR: Duration = Duration::from_secs(2);

    /// The default for the number of failures in a row that open a breaker.
    pub const DEFAULT_OPEN_AFTER: u32 = 5;

    /// The defaults for the time that a breaker stays open: before the first probe, and at most.
    pub const DEFAULT_PAUSES: (Duration, Duration) =
        (Duration::from_millis(100), Duration::from_secs(5));

    /// The default for the largest number of remembered denials.
    pub const DEFAULT_DENIALS: usize = 100_000;

    /// Returns a builder, to create a guard with other settings. By default calls end after 100 ms,
    /// and five failures in a row open a breaker. The first probe follows after 100 ms, and each
    /// probe that fails doubles that time, up to 5 s. Up to 100,000 denials are remembered for up
    /// to 2 s. The units that a local fallback admitted are charged to the store when it answers
    /// again.
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

    /// Returns how many calls were answered so far, and in which way.
    ///
    /// See the example of [`Guard`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    /// Forgets all remembered denials. Stores call it before and after an operation that resets or
    /// refunds more than one key.
    ///
    /// ```
    /// tollgate::shared::Guard::default().forget_denials();
    /// ```
    pub fn forget_denials(&self) {
        self.denials.clear();
    }

    /// Forgets the remembered denials of all keys with this digest. Stores call it when another
    /// process reports that a key was reset, set or refunded. A denial that was decided before this
    /// call and arrives after it is not remembered either.
    ///
    /// ```
    /// use tollgate::{Key, shared::Guard};
    /// let digest = "alice".with_key(|key| key.digest());
    /// Guard::default().forget_digest(digest);
    /// ```
    pub fn forget_digest(&self, digest: u16) {
        self.denials.forget_digest(digest);
    }

    /// Returns whether denials are remembered. If not, a store need not send or receive reports of
    /// changed keys.
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

    /// Returns how long a call may take. Stores can pass it to their server.
    ///
    /// ```
    /// use std::time::Duration;
    /// assert_eq!(tollgate::shared::Guard::default().deadline(), Duration::from_millis(100));
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The number of parts of the store that fail on their own, each with a breaker.
    ///
    /// ```
    /// assert_eq!(tollgate::shared::Guard::default().lanes(), 1);
    /// ```
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The number of breakers that are open: calls on these parts of the store are not sent now.
    ///
    /// ```
    /// assert_eq!(tollgate::shared::Guard::default().open_breakers(), 0);
    /// ```
    #[must_use]
    pub fn open_breakers(&self) -> usize {
        (0..self.lanes.len()).filter(|lane| self.health(*lane) == Health::Open).count()
    }

    /// Returns the name of the store in the log. It is empty if none was set.
    ///
    /// ```
    /// use tollgate::shared::Guard;
    /// assert_eq!(Guard::builder().name("redis").build().name(), "redis");
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the runtime on which the store sleeps and spawns tasks.
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

    /// Runs the function that was set with [`GuardBuilder::on_open`]. It is for stores that use
    /// another store and suspect that its connections are dead.
    ///
    /// See the example of [`GuardBuilder::on_open`].
    pub fn suspect(&self) {
        (self.on_open.0)();
    }

    /// Returns the time of this process, which is never the store's time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn fallback(&self) -> &Memory<Arc<dyn Clock>> {
        self.fallback.get_or_init(|| Memory::builder().clock(Arc::clone(&self.clock)).build())
    }

    /// Returns the time until this lane is asked again, in microseconds. It is the reported wait of
    /// a caller that is denied because the store did not answer.
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

    /// Returns a random number of thousandths, from 0 to 1000.
    fn jitter(&self, now: Timestamp) -> u64 {
        self.jitter.hash_one(now) % 1001
    }

    /// Makes one call, unless the breaker of its lane is open or the lane is overloaded. The call
    /// ends after the deadline.
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
        // If the deadline of the caller is shorter than that of the guard, a timeout says nothing
        // about the store.
        let timed_out_early =
            deadline < self.deadline && matches!(&result, Err(e) if e.kind() == ErrorKind::Lost);
        if pass.judge(&result, timed_out_early) == Turn::Opened {
            self.suspect();
        }
        result
    }

    /// Awaits `call`. Returns [`Error::lost`] if it takes longer than the deadline.
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
                .map(|()| Err(Error::lost(format!("the deadline of {deadline:?} has passed")))),
        })
        .await
    }
}

/// The permission to call the store. If it is dropped without a result, the breaker does not
/// change, except that after a probe the next call may probe.
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
        // A caller's deadline may be shorter than that of the guard. The load of the store is
        // judged by the longer of the two deadlines.
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
                        "{bound} calls are in progress, as many as the store answers within the deadline"
                    )))
                }
            },
            Permission::Probe => {
                let store = guard.name();
                tracing::debug!(
                    store,
                    "calling a store that failed, to check whether it answers again"
                );
                locked.load.enter_anyway();
                Ok(pass(true))
            }
            Permission::Wait(until) => {
                guard.counters.skipped.add();
                let left = until.since(now);
                Err(Error::unavailable(format!(
                    "the store failed too often in a row and is called again in {left:?}"
                )))
            }
        }
    }

    fn judge<T>(mut self, result: &Result<T, Error>, timed_out_early: bool) -> Turn {
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
            // The call was not sent, so the error says nothing about the store.
            Err(error) if error.is_overload() => {
                guard.counters.shed.add();
                return Turn::Nothing;
            }
            Err(_) if timed_out_early => Turn::Nothing,
            Err(error) if error.kind() != ErrorKind::Store => {
                let now = guard.now();
                lock(lane).breaker.failed(&guard.breaker, now, probe, guard.jitter(now))
            }
            // The store answered, with a decision or with an error about this call.
            Ok(_) | Err(_) => lock(lane).breaker.succeeded(),
        };
        self.judged = !timed_out_early;
        let counters = &guard.counters;
        match result {
            Ok(_) => counters.answered.add(),
            Err(error) => {
                match error.kind() {
                    ErrorKind::Unavailable => counters.unavailable.add(),
                    ErrorKind::Lost => counters.lost.add(),
                    _ => counters.refused.add(),
                }
                tracing::debug!(store = guard.name(), %error, "the call to the store failed");
            }
        }
        match turn {
            Turn::Opened => {
                counters.opened.add();
                let store = guard.name();
                match result {
                    Err(error) => {
                        tracing::warn!(store, %error, "circuit breaker opened: the store failed too often in a row");
                    }
                    Ok(_) => tracing::warn!(store, "circuit breaker opened"),
                }
            }
            Turn::Closed => {
                counters.closed.add();
                tracing::info!(
                    store = guard.name(),
                    "circuit breaker closed: the store answers again"
                );
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
    /// Sets the name of the store in the log. It must not contain secrets. Only the first call has
    /// an effect, so that a store can set a name if its user did not.
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

    /// Sets how long a call may take. The default is 100 ms: see [`Guard::DEFAULT_DEADLINE`].
    ///
    /// See the example of [`Guard`].
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets how many failures in a row open a breaker, at least one. The default is 5.
    ///
    /// See the example of [`Guard`].
    #[must_use]
    pub fn open_after(mut self, failures: u32) -> Self {
        self.failures = failures.max(1);
        self
    }

    /// Sets how long a breaker stays open before the first probe, and the longest time that it
    /// stays open when probes fail. The defaults are 100 ms and 5 s.
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

    /// Sets the number of lanes: the parts of the store that fail independently of each other, each
    /// with its own breaker. It is for implementations of stores. The default is 1.
    ///
    /// ```
    /// let guard = tollgate::shared::Guard::builder().lanes(64).build();
    /// ```
    #[must_use]
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes.max(1);
        self
    }

    /// Sets how many denials are remembered at most. With 0 the store is asked every time. The
    /// default is 100,000.
    ///
    /// ```
    /// let guard = tollgate::shared::Guard::builder().remember_denials(0).build();
    /// ```
    #[must_use]
    pub fn remember_denials(mut self, denials: usize) -> Self {
        self.denials = denials;
        self
    }

    /// Sets how long a denial is remembered at most. The default is 2 seconds. After that time the
    /// store is asked again, so this is the longest delay with which a process sees that another
    /// process has refunded or reset a key, or that the store has lost its state. Some stores
    /// announce such changes to other processes, which then see them sooner. With zero no denial is
    /// remembered, and with `Duration::MAX` a denial is remembered until it ends.
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

    /// Sets whether the store is charged, when it answers again, for the units that limiters with
    /// [`OnFailure::Local`](super::OnFailure::Local) admitted without it. The default is true. If
    /// it is false, each outage can admit the local share of the limit once more.
    ///
    /// Units are charged if the limit would still count them: before the next call about their key,
    /// or within about 100 ms if there is no such call. A hit whose answer was lost and that was
    /// then admitted locally may be charged twice. Units are not charged if this process ends
    /// first, if the answer to their charge is lost, if more than 100,000 keys of one limiter have
    /// such units, or if the caller passed the time of the hit.
    ///
    /// ```
    /// let guard = tollgate::shared::Guard::builder().charge_local(false).build();
    /// ```
    #[must_use]
    pub fn charge_local(mut self, charge: bool) -> Self {
        self.charge_local = charge;
        self
    }

    /// Sets the clock of this process, for tests.
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

    /// Sets a function that runs when a breaker opens. Stores use it to replace connections,
    /// because a connection that looks alive may be dead. The function must not block.
    ///
    /// ```
    /// use tollgate::shared::Guard;
    /// let guard = Guard::builder().on_open(|| println!("reconnecting")).build();
    /// guard.suspect();
    /// ```
    #[must_use]
    pub fn on_open(mut self, act: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_open = OnOpen(Arc::new(act));
        self
    }

    /// Creates the guard of a store that never waits. Its timer only reads the clock of the guard
    /// when it is polled, and a spawned task is polled only once.
    ///
    /// See the example of [`Guard`].
    #[must_use]
    pub fn build(self) -> Guard {
        let clock = Arc::clone(&self.clock);
        self.build_on(NoRuntime(clock))
    }

    /// Creates the guard of a store that uses this runtime.
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
