//! One limit without keys. It has one state, and a hit is one compare-exchange.

use std::sync::OnceLock;

use crate::algorithm::{Act, Hit, Op};
use crate::atomic::cell::Single;
use crate::clock::{Clock, SystemClock};
use crate::error::Error;
use crate::limit::Limit;
use crate::outcome::{Outcome, Receipt};
use crate::time::Timestamp;
use crate::wait::Queue;

/// A limit without keys: a global limit, or a limit that is stored next to the object that it
/// limits. It has no lock and keeps its state in one word.
///
/// It supports the same limits as [`Atomic`](crate::Atomic): all algorithms except the moving
/// window, in words of the same size ([the largest counts](crate::atomic)).
///
/// ```
/// use tollgate::{Direct, Limit};
///
/// let limiter = Direct::new(Limit::per_second(1000).burst(100))?;
/// assert!(limiter.hit().allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Debug)]
pub struct Direct<C = SystemClock> {
    clock: C,
    limit: Limit,
    state: Single,
    /// The queue of waiting callers. It is created by the first wait.
    queue: OnceLock<Queue>,
}

/// A [`Direct`] whose calls use a given time instead of reading the clock.
///
/// ```
/// use tollgate::{Direct, Timestamp};
///
/// let limiter = Direct::new("1/second")?;
/// let start = Timestamp::from_micros(1_790_000_000_000_000);
/// assert!(limiter.at(start).hit().allowed());
/// assert!(!limiter.at(start).hit().allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DirectAt<'a, C = SystemClock> {
    limiter: &'a Direct<C>,
    now: Timestamp,
}

impl Direct {
    /// Creates a limiter of this limit with a fresh state. The limit is a [`Limit`], a builder or a
    /// text.
    ///
    /// The first call in a process measures the speed of the processor's counter, see
    /// [`SystemClock::new`].
    ///
    /// # Errors
    /// Fails if the limit is not valid, or its state does not fit a word.
    ///
    /// ```
    /// # use tollgate::Direct;
    /// assert!(Direct::new("10/second").is_ok());
    /// assert!(Direct::new("10/second moving-window").is_err());
    /// ```
    pub fn new<L>(limit: L) -> Result<Self, Error>
    where
        L: TryInto<Limit>,
        Error: From<L::Error>,
    {
        Direct::with_clock(limit, SystemClock::new())
    }
}

impl<C: Clock> Direct<C> {
    /// Creates a limiter as [`Direct::new`] does, with another clock.
    ///
    /// # Errors
    /// Fails if the limit is not valid, or its state does not fit a word.
    ///
    /// ```
    /// # use tollgate::{Direct, ManualClock};
    /// assert!(Direct::with_clock("10/second", ManualClock::default())?.hit().allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn with_clock<L>(limit: L, clock: C) -> Result<Self, Error>
    where
        L: TryInto<Limit>,
        Error: From<L::Error>,
    {
        let limit = limit.try_into()?;
        let state = Single::new(&limit, clock.now())?;
        Ok(Direct { clock, limit, state, queue: OnceLock::new() })
    }

    /// Returns the limit.
    ///
    /// ```
    /// assert_eq!(tollgate::Direct::new("10/second")?.limit().quota(), 10);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Executes one operation at a given time.
    ///
    /// ```
    /// use tollgate::{Direct, Timestamp, algorithm::Op};
    /// let limiter = Direct::new("1/second")?;
    /// assert!(limiter.apply(Timestamp::from_micros(5), Op::Hit(1)).allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn apply(&self, now: Timestamp, op: Op) -> Outcome {
        self.state.act(now, Act::Op(op))
    }

    /// Returns a handle whose calls use the given time instead of reading the clock.
    ///
    /// See the example of [`DirectAt`].
    #[must_use]
    pub fn at(&self, now: Timestamp) -> DirectAt<'_, C> {
        DirectAt { limiter: self, now }
    }

    pub(crate) fn clock(&self) -> &C {
        &self.clock
    }

    pub(crate) fn queue(&self) -> &Queue {
        self.queue.get_or_init(Queue::default)
    }

    fn now(&self, op: Op) -> Outcome {
        self.apply(self.clock.now(), op)
    }

    /// Decides whether one more request may pass now, and charges one unit if so.
    ///
    /// ```
    /// let limiter = tollgate::Direct::new("1/hour")?;
    /// assert!(limiter.hit().allowed());
    /// assert!(!limiter.hit().allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn hit(&self) -> Outcome {
        self.hit_n(1)
    }

    /// Decides whether a request of this cost may pass now, and charges the cost if so.
    ///
    /// ```
    /// assert!(!tollgate::Direct::new("1/hour")?.hit_n(2).allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn hit_n(&self, cost: u64) -> Outcome {
        self.state.act(self.clock.now(), Hit(cost))
    }

    /// Returns the outcome that a hit would get, and changes nothing.
    ///
    /// ```
    /// assert!(tollgate::Direct::new("1/hour")?.peek().allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn peek(&self) -> Outcome {
        self.peek_n(1)
    }

    /// Returns the outcome that a hit of this cost would get, and changes nothing.
    ///
    /// ```
    /// assert!(!tollgate::Direct::new("1/hour")?.peek_n(2).allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn peek_n(&self, cost: u64) -> Outcome {
        self.now(Op::Peek(cost))
    }

    /// Charges as many units as fit, from zero to `cost`.
    ///
    /// ```
    /// assert_eq!(tollgate::Direct::new("3/hour")?.take(5).charged(), 3);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn take(&self, cost: u64) -> Outcome {
        self.now(Op::Take(cost))
    }

    /// Charges this many units without checking.
    ///
    /// ```
    /// assert_eq!(tollgate::Direct::new("3/hour fixed-window")?.charge(5).used(), 5);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn charge(&self, units: u64) -> Outcome {
        self.now(Op::Charge(units))
    }

    /// Gives back the units of a receipt, if they are still in use.
    ///
    /// ```
    /// let limiter = tollgate::Direct::new("3/hour")?;
    /// let receipt = limiter.hit().receipt();
    /// assert_eq!(limiter.refund(&receipt).used(), 0);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn refund(&self, receipt: &Receipt) -> Outcome {
        self.now(Op::Refund(*receipt))
    }

    /// Gives back this many units without a receipt, the newest first.
    ///
    /// ```
    /// let limiter = tollgate::Direct::new("3/hour fixed-window")?;
    /// assert_eq!(limiter.charge(3).used(), 3);
    /// assert_eq!(limiter.refund_n(2).used(), 1);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn refund_n(&self, units: u64) -> Outcome {
        self.now(Op::RefundUnits(units))
    }

    /// Sets the units in use to `units`, which may exceed the limit.
    ///
    /// ```
    /// assert_eq!(tollgate::Direct::new("3/hour fixed-window")?.set(2).remaining(), 1);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn set(&self, units: u64) -> Outcome {
        self.now(Op::Set(units))
    }

    /// Forgets the state. Returns true if it was not fresh.
    ///
    /// ```
    /// let limiter = tollgate::Direct::new("1/hour")?;
    /// let _ = limiter.hit();
    /// assert!(limiter.reset());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn reset(&self) -> bool {
        self.now(Op::Reset).allowed()
    }

    /// Returns the units in use now.
    ///
    /// ```
    /// assert_eq!(tollgate::Direct::new("1/hour")?.usage(), 0);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn usage(&self) -> u64 {
        self.peek().used()
    }
}

impl<C: Clock> DirectAt<'_, C> {
    /// See [`Direct::hit`].
    #[must_use]
    pub fn hit(&self) -> Outcome {
        self.hit_n(1)
    }

    /// See [`Direct::hit_n`].
    #[must_use]
    pub fn hit_n(&self, cost: u64) -> Outcome {
        self.limiter.apply(self.now, Op::Hit(cost))
    }

    /// See [`Direct::peek`].
    #[must_use]
    pub fn peek(&self) -> Outcome {
        self.peek_n(1)
    }

    /// See [`Direct::peek_n`].
    #[must_use]
    pub fn peek_n(&self, cost: u64) -> Outcome {
        self.limiter.apply(self.now, Op::Peek(cost))
    }

    /// See [`Direct::take`].
    #[must_use]
    pub fn take(&self, cost: u64) -> Outcome {
        self.limiter.apply(self.now, Op::Take(cost))
    }

    /// See [`Direct::charge`].
    pub fn charge(&self, units: u64) -> Outcome {
        self.limiter.apply(self.now, Op::Charge(units))
    }

    /// See [`Direct::refund`].
    pub fn refund(&self, receipt: &Receipt) -> Outcome {
        self.limiter.apply(self.now, Op::Refund(*receipt))
    }

    /// See [`Direct::refund_n`].
    pub fn refund_n(&self, units: u64) -> Outcome {
        self.limiter.apply(self.now, Op::RefundUnits(units))
    }

    /// See [`Direct::set`].
    pub fn set(&self, units: u64) -> Outcome {
        self.limiter.apply(self.now, Op::Set(units))
    }

    /// See [`Direct::reset`].
    pub fn reset(&self) -> bool {
        self.limiter.apply(self.now, Op::Reset).allowed()
    }

    /// See [`Direct::usage`].
    pub fn usage(&self) -> u64 {
        self.peek().used()
    }
}
