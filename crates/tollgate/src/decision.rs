//! The answer: whether it may pass, what is left, and when to come again.

use std::time::Duration;

use crate::algorithm::{Fields, Machine, Step, View};
use crate::time::Timestamp;

/// The answer to one operation on one limit. Fields are computed when they are read.
///
/// The calls that ask must be looked at; those that change something need not:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # let limiter = tollgate::Memory::new().limiter("2/minute").unwrap();
/// limiter.hit("user:42");
/// ```
///
/// ```
/// #![deny(unused_must_use)]
/// # let limiter = tollgate::Memory::new().limiter("2/minute").unwrap();
/// limiter.charge("user:42", 1);
/// ```
///
/// ```
/// use tollgate::{Limit, Memory};
///
/// let limiter = Memory::new().limiter(Limit::per_minute(2))?;
/// let decision = limiter.hit("user:42");
/// assert!(decision.allowed());
/// assert_eq!((decision.limit(), decision.used(), decision.remaining()), (2, 1, 1));
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    step: Step,
    source: Source,
    now: Timestamp,
    view: View,
    bound: u64,
}

/// Where a decision came from.
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
    /// The state that unknown keys share while the store is at its bound.
    Overflow,
    /// A denial remembered from the store.
    DenialCache,
    /// A local limiter that stands in for the store.
    Fallback,
    /// Nobody: the store did not answer and the limiter lets pass what could ever pass.
    FailOpen,
    /// Nobody: the store did not answer and the limiter lets nothing pass.
    FailClosed,
    /// An allotment drawn from the store.
    Lease,
    /// A replica's own count.
    Replica,
}

impl Source {
    /// Its name in answers, metrics and logs.
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

/// What a decision charged, and where: give it to `refund` to give the units back.
///
/// A receipt knows the units, the instant, the window or entry they went to, and the source. So a
/// refund never lands in a later window, gives back at most what has not leaked since, and goes to
/// where it was charged: a fallback or the store. It does *not* know the limit and the key, and the
/// store does not note that it was used. Therefore:
///
/// - Use it once. A second refund with the same receipt gives back units of other hits, as far as
///   they are in the same window, entry or bucket.
/// - Use it with the key and the limit that gave it. With another key it takes units of that key.
/// - Do not use it after `reset`, `set` or `clear`: its own units are gone, and those charged since
///   in the same place belong to others.
///
/// Whatever happens, a key is never given more than it has when it is fresh.
///
/// ```
/// use tollgate::{Limit, Memory};
/// let limiter = Memory::new().limiter(Limit::per_minute(2))?;
/// let receipt = limiter.hit("user:42").receipt();
/// limiter.refund("user:42", &receipt);
/// assert_eq!(limiter.usage("user:42"), 0);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// Units that were charged.
    pub units: u64,
    /// When.
    pub at: Timestamp,
    /// The window or entry they went to, as the algorithm counts them.
    pub mark: u64,
    /// Where: what a fallback charged is given back there.
    pub source: Source,
}

impl Receipt {
    /// A receipt for at most that many of its units.
    ///
    /// ```
    /// use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(9))?;
    /// let receipt = limiter.hit_n("user:42", 5).receipt();
    /// limiter.refund("user:42", &receipt.at_most(2));
    /// assert_eq!(limiter.usage("user:42"), 3);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn at_most(self, units: u64) -> Receipt {
        Receipt { units: self.units.min(units), ..self }
    }
}

impl Decision {
    #[inline(always)]
    pub(crate) fn new<M: Machine>(
        machine: &M,
        state: Option<&M::State>,
        now: Timestamp,
        step: Step,
    ) -> Decision {
        Decision {
            view: machine.view(state, now, &step),
            step,
            source: Source::Store,
            now,
            bound: 0,
        }
    }

    /// The same from another source: for stores that decide some keys in another way than others.
    ///
    /// ```
    /// # use tollgate::{Memory, Source};
    /// let decision = Memory::new().limiter("1/hour")?.hit("a").with_source(Source::Overflow);
    /// assert_eq!(decision.source(), Source::Overflow);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn with_source(self, source: Source) -> Decision {
        Decision { source, ..self }
    }

    /// The same with another [bound](Decision::bound): for stores that do not know all.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let decision = Memory::new().limiter("1/hour")?.hit("a").with_bound(3);
    /// assert_eq!(decision.bound(), Some(3));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn with_bound(self, bound: u64) -> Decision {
        Decision { bound, ..self }
    }

    /// Of fields that were computed elsewhere: for stores whose state is too large to send.
    ///
    /// ```
    /// use tollgate::algorithm::{Fields, Step};
    /// use tollgate::{Decision, Timestamp};
    /// let step = Step { allowed: true, cost: 1, charged: 1, changed: true };
    /// let fields =
    ///     Fields { limit: 5, remaining: 4, used: 1, retry_at: None, fresh_at: None, mark: 0 };
    /// assert_eq!(Decision::of_fields(step, Timestamp::EPOCH, fields).remaining(), 4);
    /// ```
    #[must_use]
    pub fn of_fields(step: Step, now: Timestamp, fields: Fields) -> Decision {
        Decision { step, source: Source::Store, now, view: View::Fields(fields), bound: 0 }
    }

    /// A refusal without a state, until then.
    pub(crate) fn closed(limit: u64, now: Timestamp, cost: u64, until: Timestamp) -> Decision {
        let step = Step { allowed: false, cost, charged: 0, changed: false };
        let retry_at = (cost <= limit).then_some(until);
        let fields =
            Fields { limit, remaining: 0, used: limit, retry_at, fresh_at: Some(until), mark: 0 };
        Decision::of_fields(step, now, fields).with_source(Source::FailClosed)
    }

    /// A refusal without end of a cost that another limit, of that capacity, could let pass: until
    /// then.
    pub(crate) fn not_beyond(self, capacity: u64, until: Timestamp) -> Decision {
        let fields = self.view.fields(self.now, &self.step);
        let never = !self.step.allowed && fields.retry_at.is_none();
        if !never || self.step.cost > capacity {
            return self;
        }
        let fields = Fields { retry_at: Some(until), ..fields };
        Decision { view: View::Fields(fields), ..self }
    }

    /// What a hit of that cost gets at a later time if nothing else happened since, without the
    /// store; `None` where that cannot be known: for stores.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limit, Memory};
    /// let denied = Memory::new().limiter(Limit::per_minute(2))?.take("a", 2);
    /// let later = denied.now() + Duration::from_secs(30);
    /// assert!(denied.asked_again(later, 1).is_some_and(|decision| decision.allowed()));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn asked_again(&self, now: Timestamp, cost: u64) -> Option<Decision> {
        let step = Step { cost, charged: 0, ..self.step };
        let fields = self.view.fields(now, &step);
        let allowed = cost <= fields.remaining;
        if let View::Fields(known) = self.view {
            // Only the wait of the cost that was asked is known.
            let same = cost == self.step.cost || allowed || cost > fields.limit;
            let known_wait = !self.step.allowed || cost == 1;
            let retry_at = known.retry_at.filter(|_| known_wait && cost <= fields.limit);
            let view = View::Fields(Fields { retry_at, ..known });
            let step = Step { allowed, ..step };
            return same.then_some(Decision {
                step,
                source: Source::DenialCache,
                now,
                view,
                ..*self
            });
        }
        Some(Decision { step: Step { allowed, ..step }, source: Source::DenialCache, now, ..*self })
    }

    /// [`asked_again`](Decision::asked_again) of a refusal that has not ended, for at least its
    /// cost: no need to look whether it passes.
    pub(crate) fn refused_again(&self, now: Timestamp, cost: u64) -> Option<Decision> {
        if matches!(self.view, View::Fields(_)) && cost != self.step.cost {
            return self.asked_again(now, cost);
        }
        let step = Step { cost, charged: 0, ..self.step };
        Some(Decision { step, source: Source::DenialCache, now, ..*self })
    }

    /// When this cost passes if nobody else comes; `None` if never, or if it did.
    pub(crate) fn retry_at(&self) -> Option<Timestamp> {
        if self.step.allowed { None } else { self.view.fields(self.now, &self.step).retry_at }
    }

    /// All fields, for who reads several: each of the methods computes what it needs anew.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// let fields = limiter.hit("a").fields();
    /// assert_eq!((fields.limit, fields.remaining, fields.used), (3, 2, 1));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn fields(&self) -> Fields {
        self.view.fields(self.now, &self.step)
    }

    /// Whether it may pass.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(1))?;
    /// assert!(limiter.hit("a").allowed());
    /// assert!(!limiter.hit("a").allowed());
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
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(1).burst(5))?;
    /// assert_eq!(limiter.hit("a").limit(), 5);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn limit(&self) -> u64 {
        self.view.fields(self.now, &self.step).limit
    }

    /// The largest cost that would still pass now, after this decision.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit("a").remaining(), 2);
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
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit_n("a", 2).used(), 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn used(&self) -> u64 {
        self.view.fields(self.now, &self.step).used
    }

    /// How long to wait until this cost passes if nobody else comes: zero when allowed, `None` when
    /// it can never pass. Exact to the microsecond: refused one before, admitted on it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limit, Memory, Timestamp};
    /// let limiter = Memory::new().limiter(Limit::per_minute(1))?;
    /// let now = Timestamp::from_micros(1_000);
    /// assert_eq!(limiter.at(now).hit("a").retry_after(), Some(Duration::ZERO));
    /// assert_eq!(limiter.at(now).hit("a").retry_after(), Some(Duration::from_secs(60)));
    /// assert_eq!(limiter.at(now).hit_n("a", 2).retry_after(), None);
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

    /// How long until the key is as good as new if nobody comes.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limit, Memory, Timestamp};
    /// let limiter = Memory::new().limiter(Limit::per_minute(2))?;
    /// let decision = limiter.at(Timestamp::from_micros(1_000)).hit("a");
    /// assert_eq!(decision.reset_after(), Duration::from_secs(30));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn reset_after(&self) -> Duration {
        self.expires_at().map_or(Duration::ZERO, |at| at.since(self.now))
    }

    /// When the key is as good as new if nobody comes; `None` if it is.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory, Timestamp};
    /// let limiter = Memory::new().limiter(Limit::per_minute(2))?;
    /// assert_eq!(limiter.peek("a").expires_at(), None);
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
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// assert_eq!(limiter.take("a", 5).charged(), 3);
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
    /// # use tollgate::{Limit, Memory, Timestamp};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// assert_eq!(limiter.at(Timestamp::from_micros(7)).hit("a").now(), Timestamp::from_micros(7));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Where the answer came from.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory, Source};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit("a").source(), Source::Store);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn source(&self) -> Source {
        self.source
    }

    /// How many units may have been admitted beyond the limit when this was decided: none where
    /// every hit is counted in one place or against an allotment from there; what others may have
    /// admitted unseen for a replica; `None` where the store did not answer and nobody knows.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit("a").bound(), Some(0));
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

    /// What was charged, for a refund.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit_n("a", 2).receipt().units, 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn receipt(&self) -> Receipt {
        let mark = self.view.fields(self.now, &self.step).mark;
        Receipt { units: self.step.charged, at: self.now, mark, source: self.source }
    }
}
