//! The answer of one limit: whether a hit may pass, what is left, and when to retry.

use std::time::Duration;

use crate::algorithm::{Fields, Machine, Step, View};
use crate::time::Timestamp;

/// The answer of one limit to one operation on one key. Figures are computed when they are read.
///
/// Stores return outcomes. A limiter combines those of all its limits into a
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
    /// The store's own state of this key.
    Store,
    /// The state that unknown keys share while the store is at its bound on keys.
    Overflow,
    /// A remembered denial of the store.
    DenialCache,
    /// A local limiter that replaces the store while it does not answer.
    Fallback,
    /// No state: the store did not answer, and the limiter allows every cost within the capacity.
    FailOpen,
    /// No state: the store did not answer, and the limiter denies everything.
    FailClosed,
    /// An allotment drawn from the store.
    Lease,
    /// The counts of a replica.
    Replica,
}

impl Source {
    /// The name in answers, metrics and logs.
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
}

/// The units that a limit charged and where. Pass it to `refund_receipts` to give the units back.
///
/// A receipt contains the units, the instant, the window or entry that was charged, and the source.
/// So a refund never affects a later window, gives back at most what has not leaked since, and goes
/// to where it was charged: a fallback or the store. It does *not* contain the limit and the key,
/// and the store does not record that it was used. Therefore:
///
/// - Use it once. A second refund with the same receipt gives back units of other hits, as far as
///   they are in the same window, entry or bucket.
/// - Use it with the key and the limit that gave it. With another key it takes units of that key.
/// - Do not use it after `reset`, `set` or `clear`: its own units are gone, and those charged since
///   in the same place belong to others.
///
/// A refund never leaves a key with more than a fresh key has.
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
    /// Units that were charged.
    pub units: u64,
    /// The time of the charge.
    pub at: Timestamp,
    /// The window or entry that was charged, as the algorithm counts them.
    pub mark: u64,
    /// The source: what a fallback charged is given back to it.
    pub source: Source,
}

impl Receipt {
    /// A receipt for at most that many of its units.
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

    /// The same outcome with another source: for stores that decide some keys in a different way.
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

    /// The same outcome with another [bound](Outcome::bound): for stores that do not know all
    /// counts.
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

    /// An outcome from computed fields: for stores whose state is too large to send.
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

    /// A denial without a state, until `until`.
    pub(crate) fn closed(limit: u64, now: Timestamp, cost: u64, until: Timestamp) -> Outcome {
        let step = Step { allowed: false, cost, charged: 0, changed: false };
        let retry_at = (cost <= limit).then_some(until);
        let fields =
            Fields { limit, remaining: 0, used: limit, retry_at, fresh_at: Some(until), mark: 0 };
        Outcome::of_fields(step, now, fields).with_source(Source::FailClosed)
    }

    /// Turns a denial without end into one until `until`, if another limit with that capacity could
    /// admit the cost.
    pub(crate) fn not_beyond(self, capacity: u64, until: Timestamp) -> Outcome {
        let fields = self.view.fields(self.now, &self.step);
        let never = !self.step.allowed && fields.retry_at.is_none();
        if !never || self.step.cost > capacity {
            return self;
        }
        let fields = Fields { retry_at: Some(until), ..fields };
        Outcome { view: View::Fields(fields), ..self }
    }

    /// The outcome of a hit of that cost at a later time if nothing else has happened since,
    /// without the store; `None` if that cannot be computed: for stores.
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
        let step = Step { cost, charged: 0, ..self.step };
        let fields = self.view.fields(now, &step);
        let allowed = cost <= fields.remaining;
        if let View::Fields(known) = self.view {
            // Fields contain only the wait of the cost that was asked.
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

    /// [`asked_again`](Outcome::asked_again) for a denial that has not ended and at least the
    /// denied cost: it is surely still denied.
    pub(crate) fn refused_again(&self, now: Timestamp, cost: u64) -> Option<Outcome> {
        if matches!(self.view, View::Fields(_)) && cost != self.step.cost {
            return self.asked_again(now, cost);
        }
        let step = Step { cost, charged: 0, ..self.step };
        Some(Outcome { step, source: Source::DenialCache, now, ..*self })
    }

    /// When this cost passes if there is no other hit; `None` if never, or if it was allowed.
    pub(crate) fn retry_at(&self) -> Option<Timestamp> {
        if self.step.allowed { None } else { self.view.fields(self.now, &self.step).retry_at }
    }

    /// All fields, for callers that read several: each single method computes what it needs anew.
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

    /// Whether the hit may pass.
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

    /// The capacity: the quota, or the burst of a bucket.
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

    /// The largest cost that would still pass now, after this outcome.
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

    /// Units in use, rounded up: `used + remaining` is the limit unless more was charged than it
    /// allows.
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

    /// How long to wait until this cost passes if there is no other hit: zero when allowed, `None`
    /// when it can never pass. Exact to the microsecond: denied one microsecond before, admitted at
    /// it.
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

    /// How long until the key is fresh again if there is no other hit.
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

    /// When the key is fresh again if there is no other hit; `None` if it is fresh already.
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

    /// Units this call charged: the cost of an allowed hit, what a take was granted, nothing for a
    /// denial unless denied hits are charged.
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

    /// The time at which it was decided.
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

    /// The source of the outcome.
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

    /// How many units may have been admitted beyond the limit at the time of this decision. Zero
    /// where every hit is counted in one place or against an allotment. For a replica, what other
    /// nodes may have admitted unseen. `None` where the store did not answer, because then it is
    /// not known.
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

    /// The receipt of the charge, for a refund.
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
