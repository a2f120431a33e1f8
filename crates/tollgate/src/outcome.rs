//! The answer of one limit: whether a hit may pass, how many units are left, and when to retry.

use std::time::Duration;

use crate::algorithm::ban::Ban;
use crate::algorithm::{Fields, Machine, Step, View};
use crate::time::Timestamp;

/// The answer of one limit to one operation on one key. Its figures are computed when they are
/// read.
///
/// Stores return outcomes. A limiter combines the outcomes of all its limits into a
/// [`Decision`](crate::Decision).
///
/// ```
/// use tollgate::{Direct, Limit};
///
/// let limiter = Direct::new(Limit::per_minute(2))?;
/// let outcome = limiter.hit();
/// assert!(outcome.allowed());
/// assert_eq!((outcome.limit(), outcome.used(), outcome.remaining()), (2, 1, 1));
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    step: Step,
    source: Source,
    now: Timestamp,
    view: View,
    bound: u64,
}

/// The origin of an outcome.
///
/// ```
/// use tollgate::{Limit, Memory, Source};
/// let limiter = Memory::new().limiter(Limit::per_minute(2))?;
/// assert_eq!(limiter.hit("user:42").source(), Source::Store);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The store's state of this key.
    Store,
    /// The state that all unknown keys share while the store is at its bound on keys.
    Overflow,
    /// A remembered denial of the store.
    DenialCache,
    /// The local limiter that decides while the store does not answer.
    Fallback,
    /// No state. The store did not answer, and the limiter then allows every cost up to the
    /// capacity.
    FailOpen,
    /// No state. The store did not answer, and the limiter then denies every hit.
    FailClosed,
    /// Units that this node has drawn from the store in advance.
    Lease,
    /// The counts that this node has received from other nodes and its own counts.
    Replica,
}

impl Source {
    /// Returns the name in answers, metrics and logs.
    ///
    /// ```
    /// assert_eq!(tollgate::Source::DenialCache.name(), "denial_cache");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Source::Store => "store",
            Source::Overflow => "overflow",
            Source::DenialCache => "denial_cache",
            Source::Fallback => "fallback",
            Source::FailOpen => "fail_open",
            Source::FailClosed => "fail_closed",
            Source::Lease => "lease",
            Source::Replica => "replica",
        }
    }

    /// The sources by their numbers in receipts on the wire. Add new ones at the end.
    pub(crate) const BY_NUMBER: [Source; 8] = [
        Source::Store,
        Source::Overflow,
        Source::DenialCache,
        Source::Fallback,
        Source::FailOpen,
        Source::FailClosed,
        Source::Lease,
        Source::Replica,
    ];

    pub(crate) fn from_number(number: u8) -> Option<Source> {
        Source::BY_NUMBER.get(usize::from(number)).copied()
    }

    pub(crate) fn number(self) -> u8 {
        self as u8
    }
}

/// The reason why a denial states no time to wait.
///
/// See the example of [`Outcome::no_retry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoRetry {
    /// The cost is larger than the capacity, so it can never pass.
    Never,
    /// The cost passes when units are given back. When that happens is not known.
    Unknown,
}

/// The units that a limit charged, and where it charged them. Pass the receipt to `refund_receipts`
/// to give the units back.
///
/// A receipt contains the units, the instant, the window or entry that was charged, and the source.
/// So a refund never affects a later window, never gives back units that have leaked since, and
/// goes to the store or the fallback that was charged. A receipt does *not* contain the limit and
/// the key, and the store does not record that a receipt was used. Therefore:
///
/// - Use it once. A second refund with the same receipt gives back units of other hits, if they are
///   in the same window, entry or bucket.
/// - Use it with the key and the limit of the hit. With another key it gives back units of that
///   key.
/// - Do not use it after `reset`, `set` or `clear`: its own units are gone, and units charged since
///   in the same window, entry or bucket belong to other hits.
///
/// A refund never leaves a key with more than a fresh key has. To pass a receipt to another process
/// or over a network, write it as a [`WireReceipt`](crate::WireReceipt), which is checked against
/// the limit and the key.
///
/// ```
/// use tollgate::{Limit, Memory};
/// let limiter = Memory::new().limiter(Limit::per_minute(2))?;
/// let receipts: Vec<_> = limiter.hit("user:42").receipts().collect();
/// limiter.refund_receipts("user:42", &receipts);
/// assert_eq!(limiter.usage("user:42"), 0);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The units that were charged.
    pub units: u64,
    /// The time of the charge.
    pub at: Timestamp,
    /// The number of the window or entry that was charged. Its meaning depends on the algorithm.
    pub mark: u64,
    /// The source of the outcome. Units that a fallback charged are given back to the fallback.
    pub source: Source,
}

impl Receipt {
    /// Returns a receipt for at most this many of the units.
    ///
    /// ```
    /// use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(9))?;
    /// let decision = limiter.hit_n("user:42", 5);
    /// let receipts: Vec<_> = decision.receipts().map(|receipt| receipt.at_most(2)).collect();
    /// limiter.refund_receipts("user:42", &receipts);
    /// assert_eq!(limiter.usage("user:42"), 3);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn at_most(self, units: u64) -> Receipt {
        Receipt { units: self.units.min(units), ..self }
    }
}

impl Outcome {
    #[inline(always)]
    pub(crate) fn new<M: Machine>(
        machine: &M,
        state: Option<&M::State>,
        now: Timestamp,
        step: Step,
    ) -> Outcome {
        Outcome {
            view: machine.view(state, now, &step),
            step,
            source: Source::Store,
            now,
            bound: 0,
        }
    }

    /// Returns the outcome with another source. It is for stores that decide some keys in a
    /// different way.
    ///
    /// ```
    /// # use tollgate::{Direct, Source};
    /// let outcome = Direct::new("1/hour")?.hit().with_source(Source::Overflow);
    /// assert_eq!(outcome.source(), Source::Overflow);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn with_source(self, source: Source) -> Outcome {
        Outcome { source, ..self }
    }

    /// Returns the outcome with another [bound](Outcome::bound). It is for stores that do not know
    /// all counts.
    ///
    /// ```
    /// # use tollgate::Direct;
    /// let outcome = Direct::new("1/hour")?.hit().with_bound(3);
    /// assert_eq!(outcome.bound(), Some(3));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn with_bound(self, bound: u64) -> Outcome {
        Outcome { bound, ..self }
    }

    /// Creates an outcome from computed fields. It is for stores whose state is too large to send.
    ///
    /// ```
    /// use tollgate::algorithm::{Fields, Step};
    /// use tollgate::{Outcome, Timestamp};
    /// let step = Step { allowed: true, cost: 1, charged: 1, changed: true };
    /// let fields =
    ///     Fields { limit: 5, remaining: 4, used: 1, retry_at: None, fresh_at: None, mark: 0 };
    /// assert_eq!(Outcome::of_fields(step, Timestamp::EPOCH, fields).remaining(), 4);
    /// ```
    #[must_use]
    pub fn of_fields(step: Step, now: Timestamp, fields: Fields) -> Outcome {
        Outcome { step, source: Source::Store, now, view: View::Fields(fields), bound: 0 }
    }

    /// Creates a denial that ends at `until` and is not based on a state.
    pub(crate) fn closed(limit: u64, now: Timestamp, cost: u64, until: Timestamp) -> Outcome {
        let step = Step { allowed: false, cost, charged: 0, changed: false };
        let retry_at = (cost <= limit).then_some(until);
        let fields =
            Fields { limit, remaining: 0, used: limit, retry_at, fresh_at: Some(until), mark: 0 };
        Outcome::of_fields(step, now, fields).with_source(Source::FailClosed)
    }

    /// Turns a denial that never ends into a denial that ends at `until`, if a limit with this
    /// capacity could admit the cost.
    pub(crate) fn not_beyond(self, capacity: u64, until: Timestamp) -> Outcome {
        let fields = self.view.fields(self.now, &self.step);
        let never = !self.step.allowed && fields.retry_at.is_none();
        if !never || self.step.cost > capacity {
            return self;
        }
        let fields = Fields { retry_at: Some(until), ..fields };
        Outcome { view: View::Fields(fields), ..self }
    }

    /// Returns the outcome that a hit of this cost would get at a later time if the state has not
    /// changed since. It does not ask the store. `None` if the outcome cannot be computed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, Limit};
    /// let denied = Direct::new(Limit::per_minute(2))?.take(2);
    /// let later = denied.now() + Duration::from_secs(30);
    /// assert!(denied.asked_again(later, 1).is_some_and(|outcome| outcome.allowed()));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn asked_again(&self, now: Timestamp, cost: u64) -> Option<Outcome> {
        if let View::Ban(_, state) = &self.view {
            // A ban has no units, so it denies every cost alike.
            let allowed = !Ban::is_banned(state.as_ref(), now);
            let step = Step { allowed, charged: 0, ..self.step };
            return Some(Outcome { step, source: Source::DenialCache, now, ..*self });
        }
        let step = Step { cost, charged: 0, ..self.step };
        let fields = self.view.fields(now, &step);
        let allowed = cost <= fields.remaining;
        if let View::Fields(known) = self.view {
            // The fields contain only the wait for the cost of the original call.
            let same = cost == self.step.cost || allowed || cost > fields.limit;
            let known_wait = !self.step.allowed || cost == 1;
            let retry_at = known.retry_at.filter(|_| known_wait && cost <= fields.limit);
            let view = View::Fields(Fields { retry_at, ..known });
            let step = Step { allowed, ..step };
            return same.then_some(Outcome {
                step,
                source: Source::DenialCache,
                now,
                view,
                ..*self
            });
        }
        Some(Outcome { step: Step { allowed, ..step }, source: Source::DenialCache, now, ..*self })
    }

    /// Returns the same as [`asked_again`](Outcome::asked_again), for a denial that has not ended.
    /// `cost` is at least the denied cost, so the answer is certainly a denial.
    pub(crate) fn refused_again(&self, now: Timestamp, cost: u64) -> Option<Outcome> {
        if matches!(self.view, View::Fields(_)) && cost != self.step.cost {
            return self.asked_again(now, cost);
        }
        let step = Step { cost, charged: 0, ..self.step };
        Some(Outcome { step, source: Source::DenialCache, now, ..*self })
    }

    /// Returns the time at which this cost passes if there is no other hit. `None` if it never
    /// passes, or if it was allowed.
    pub(crate) fn retry_at(&self) -> Option<Timestamp> {
        if self.step.allowed { None } else { self.view.fields(self.now, &self.step).retry_at }
    }

    /// Returns all figures. This is cheaper than calls of several single methods, each of which
    /// computes its figure anew.
    ///
    /// ```
    /// # use tollgate::{Direct, Limit};
    /// let limiter = Direct::new(Limit::per_minute(3))?;
    /// let fields = limiter.hit().fields();
    /// assert_eq!((fields.limit, fields.remaining, fields.used), (3, 2, 1));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn fields(&self) -> Fields {
        self.view.fields(self.now, &self.step)
    }

    /// Returns whether the hit may pass.
    ///
    /// ```
    /// # use tollgate::{Direct, Limit};
    /// let limiter = Direct::new(Limit::per_minute(1))?;
    /// assert!(limiter.hit().allowed());
    /// assert!(!limiter.hit().allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn allowed(&self) -> bool {
        self.step.allowed
    }

    /// Returns whether a ban denies: the key is shut out until
    /// [`retry_after`](Outcome::retry_after).
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().limiter("1/minute; ban after=1/minute for=1h")?;
    /// assert!(limiter.hit("a").allowed());
    /// let denied = limiter.hit("a");
    /// let banned: Vec<_> = denied.outcomes().iter().map(|outcome| outcome.banned()).collect();
    /// assert_eq!(banned, [false, true]);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn banned(&self) -> bool {
        self.is_ban() && !self.step.allowed
    }

    /// Returns whether this is the outcome of a ban. It counts denials: `limit` is the number that
    /// starts a ban, `used` the denials counted, and nothing is charged.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().limiter("1/minute; ban after=5/minute for=1h")?;
    /// let _ = (limiter.hit("a"), limiter.hit("a"));
    /// let peeked = limiter.peek("a");
    /// let ban = &peeked.outcomes()[1];
    /// assert!(ban.is_ban() && ban.allowed());
    /// assert_eq!((ban.used(), ban.remaining()), (1, 4));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn is_ban(&self) -> bool {
        matches!(self.view, View::Ban(..))
    }

    /// Returns the capacity: the quota, or the burst of a bucket.
    ///
    /// ```
    /// # use tollgate::{Direct, Limit};
    /// let limiter = Direct::new(Limit::per_minute(1).burst(5))?;
    /// assert_eq!(limiter.hit().limit(), 5);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn limit(&self) -> u64 {
        self.view.fields(self.now, &self.step).limit
    }

    /// Returns the largest cost that would still pass now, after this outcome.
    ///
    /// ```
    /// # use tollgate::{Direct, Limit};
    /// let limiter = Direct::new(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit().remaining(), 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.view.fields(self.now, &self.step).remaining
    }

    /// Returns the units in use, rounded up. `used + remaining` is the limit, unless more was
    /// charged than the limit allows.
    ///
    /// ```
    /// # use tollgate::{Direct, Limit};
    /// let limiter = Direct::new(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit_n(2).used(), 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn used(&self) -> u64 {
        self.view.fields(self.now, &self.step).used
    }

    /// Returns how long to wait until this cost passes if there is no other hit: zero if it is
    /// allowed, `None` if it can never pass. It is exact: a hit one microsecond earlier is denied,
    /// and a hit at that time is admitted.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, Limit, Timestamp};
    /// let limiter = Direct::new(Limit::per_minute(1))?;
    /// let now = Timestamp::from_micros(1_790_000_000_000_000);
    /// assert_eq!(limiter.at(now).hit().retry_after(), Some(Duration::ZERO));
    /// assert_eq!(limiter.at(now).hit().retry_after(), Some(Duration::from_secs(60)));
    /// assert_eq!(limiter.at(now).hit_n(2).retry_after(), None);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn retry_after(&self) -> Option<Duration> {
        if self.step.allowed {
            return Some(Duration::ZERO);
        }
        self.view.fields(self.now, &self.step).retry_at.map(|at| at.since(self.now))
    }

    /// Returns why there is no time to wait. `None` if [`retry_after`](Outcome::retry_after) states
    /// one.
    ///
    /// ```
    /// use tollgate::{Limit, Memory, NoRetry};
    /// let limiter = Memory::new().limiter(Limit::total(5).name("credit"))?;
    /// assert_eq!(limiter.hit_n("a", 9).headline().no_retry(), Some(NoRetry::Never));
    /// limiter.charge("a", 5);
    /// assert_eq!(limiter.hit("a").headline().no_retry(), Some(NoRetry::Unknown));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn no_retry(&self) -> Option<NoRetry> {
        let fields = self.fields();
        match (self.step.allowed, fields.retry_at) {
            (true, _) | (_, Some(_)) => None,
            _ if self.step.cost > fields.limit => Some(NoRetry::Never),
            _ => Some(NoRetry::Unknown),
        }
    }

    /// Returns how long it takes until the key is fresh again if there is no other hit. Zero for a
    /// key that is fresh, and for a budget, which never is fresh again by itself.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, Limit, Timestamp};
    /// let limiter = Direct::new(Limit::per_minute(2))?;
    /// let outcome = limiter.at(Timestamp::from_micros(1_790_000_000_000_000)).hit();
    /// assert_eq!(outcome.reset_after(), Duration::from_secs(30));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn reset_after(&self) -> Duration {
        self.expires_at().map_or(Duration::ZERO, |at| at.since(self.now))
    }

    /// Returns the time at which the key is fresh again if there is no other hit. `None` if it is
    /// already fresh.
    ///
    /// ```
    /// # use tollgate::{Direct, Limit, Timestamp};
    /// let limiter = Direct::new(Limit::per_minute(2))?;
    /// assert_eq!(limiter.peek().expires_at(), None);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.view.fields(self.now, &self.step).fresh_at.filter(|at| *at > self.now)
    }

    /// Returns the units that this call charged: the cost of an allowed hit, the granted units of a
    /// take, or zero for a denial. With `charge-denied` a denied hit may charge units too.
    ///
    /// ```
    /// # use tollgate::{Direct, Limit};
    /// let limiter = Direct::new(Limit::per_minute(3))?;
    /// assert_eq!(limiter.take(5).charged(), 3);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn charged(&self) -> u64 {
        self.step.charged
    }

    /// Returns the time for which the outcome was computed.
    ///
    /// ```
    /// # use tollgate::{Direct, Limit, Timestamp};
    /// let limiter = Direct::new(Limit::per_minute(3))?;
    /// assert_eq!(limiter.at(Timestamp::from_micros(1_790_000_000_000_007)).hit().now(), Timestamp::from_micros(1_790_000_000_000_007));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the source of the outcome.
    ///
    /// ```
    /// # use tollgate::{Direct, Limit, Source};
    /// let limiter = Direct::new(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit().source(), Source::Store);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns how many units may have been admitted beyond the limit at the time of this decision.
    /// It is zero where all hits are counted in one place, or against units that were drawn in
    /// advance. For a replica it is the number of units that other nodes may have admitted without
    /// this node's knowledge. `None` means that the store did not answer, so the number is not
    /// known.
    ///
    /// ```
    /// # use tollgate::{Direct, Limit};
    /// let limiter = Direct::new(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit().bound(), Some(0));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn bound(&self) -> Option<u64> {
        match self.source {
            Source::FailOpen | Source::Fallback => None,
            _ => Some(self.bound),
        }
    }

    /// Returns the receipt of the charge, for a refund.
    ///
    /// ```
    /// # use tollgate::{Direct, Limit};
    /// let limiter = Direct::new(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit_n(2).receipt().units, 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn receipt(&self) -> Receipt {
        let mark = self.view.fields(self.now, &self.step).mark;
        Receipt { units: self.step.charged, at: self.now, mark, source: self.source }
    }
}
