//! GCRA, the generic cell rate algorithm: the bucket as a single arrival time.
//!
//! **The simplest idea.** Hits of a steady client come one interval `p/n` apart. Remember when the
//! next one is due, the *theoretical arrival time* `tat`. A hit that comes on time or late is
//! admitted and moves `tat` one interval on. **Where that fails:** it allows no burst at all.
//!
//! **What mends it.** Let a hit come early by at most the time of a whole burst, `b * p/n`:
//!
//! ```text
//! 2/second burst=3: interval 500 ms, tolerance 1500 ms
//!
//!   hit at     0 ms      0 ms      0 ms      0 ms                500 ms
//!   tat after  500 ms    1000 ms   1500 ms   (would be 2000)     2000 ms
//!              allow     allow     allow     deny, wait 500 ms   allow
//! ```
//!
//! One number is the whole state, and an arrival time in the past is a fresh key: nothing has to be
//! refilled, leaked or swept. It decides exactly as the token bucket does.
//!
//! **Where it fails elsewhere.** Whole intervals drift (3 per second is not 333,333 microseconds),
//! products wrap, and `max(tat, now - tolerance)` in place of `max(tat, now)` gives nearly two
//! bursts in one moment. This implementation keeps the remainder: `tat` is whole microseconds and
//! `part / n` of a microsecond, and an interval is `p / n` microseconds and `p % n` parts. Adding
//! pairs needs no wide products on the path of a hit.
//!
//! **The bound.** At most `b + floor(d*n/p)` in any span `d`.
//!
//! **What it gives up.** `used` is computed from a time, so after a change of the quota the same
//! debt is another number of units: a bucket half full stays half full.
//!
//! **No guard against time going back is needed**: `tat` does not depend on when it was written.

use super::level::Bucket;
use super::{Aging, MAX_UNITS, Machine, Step, View, words};
use crate::limit::{Description, Rate};
use crate::outcome::Receipt;
use crate::time::Timestamp;

/// The theoretical arrival time: `tat + part/quota` microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GcraState {
    /// The arrival time without its fraction of a microsecond.
    pub tat: Timestamp,
    /// The fraction of a microsecond, in units of `1 / quota` microseconds.
    pub part: u64,
}

words!(GcraState, [tat, part], 2, Self { tat: Timestamp::from_micros(tat), part }, |s| [
    s.tat.as_micros(),
    s.part
]);

/// A span of time: whole microseconds, at most 2^62, and a remainder in units of `1 / quota`
/// microseconds. The order of spans is that of their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    micros: u64,
    part: u64,
}

/// The functions of GCRA.
#[derive(Clone, Copy, Debug)]
pub struct Gcra {
    quota: u64,
    period: u64,
    burst: u64,
    interval: Span,
    tolerance: Span,
    /// Whether an interval has a remainder. That of 7 per second has one; that of 10 per second has
    /// none, so all computations with remainders are skipped.
    has_parts: bool,
}

impl Gcra {
    pub(crate) fn new(rate: Rate) -> Self {
        let Rate { quota, period, burst, .. } = rate;
        let zero = Span { micros: 0, part: 0 };
        let has_parts = period % quota != 0;
        let mut gcra = Gcra { quota, period, burst, interval: zero, tolerance: zero, has_parts };
        gcra.interval = gcra.span(u128::from(period));
        gcra.tolerance = gcra.span(u128::from(burst) * u128::from(period));
        gcra
    }

    /// Returns whether all times of this limit are whole microseconds.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        !self.has_parts
    }

    /// Converts parts (units of `1 / quota` microseconds) to a span, which saturates.
    fn span(&self, parts: u128) -> Span {
        const MAX: u64 = Timestamp::MAX.as_micros();
        let quota = u128::from(self.quota);
        match u64::try_from(parts / quota) {
            Ok(micros) if micros <= MAX => Span { micros, part: (parts % quota) as u64 },
            _ => Span { micros: MAX, part: 0 },
        }
    }

    /// Returns the time in which this many units are refilled: whole microseconds, and a remainder
    /// in units of `1 / quota` microseconds. It is for stores that run GCRA in another language.
    ///
    /// ```
    /// use tollgate::algorithm::AnyMachine;
    /// let AnyMachine::Gcra(gcra) = AnyMachine::new(&"7/second".parse()?) else { panic!() };
    /// assert_eq!(gcra.time_of(1), (142_857, 1));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn time_of(&self, units: u64) -> (u64, u64) {
        let Span { micros, part } = self.worth(units);
        (micros, part)
    }

    fn parts(&self, span: Span) -> u128 {
        u128::from(span.micros) * u128::from(self.quota) + u128::from(span.part)
    }

    /// Returns the span of time in which `cost` units are refilled.
    #[inline(always)]
    fn worth(&self, cost: u64) -> Span {
        match cost {
            1 => self.interval,
            _ => self.span(u128::from(cost) * u128::from(self.period)),
        }
    }

    /// Returns the arrival time of the state, but at least `now`. A remainder that is not below the
    /// quota comes from a larger quota, and is rounded up to a microsecond.
    #[inline(always)]
    fn due(&self, state: Option<&GcraState>, now: Timestamp) -> GcraState {
        match state {
            Some(state) if state.tat < now => GcraState { tat: now, part: 0 },
            Some(state) if state.part == 0 || state.part < self.quota => *state,
            Some(state) => GcraState { tat: state.tat.plus(1), part: 0 },
            None => GcraState { tat: now, part: 0 },
        }
    }

    /// Returns the time `span` after `due`.
    #[inline(always)]
    fn after(&self, due: GcraState, span: Span) -> GcraState {
        // Both numbers are at most 2^62, so their sum does not overflow.
        let micros = due.tat.as_micros() + span.micros;
        if !self.has_parts && due.part == 0 {
            return GcraState { tat: Timestamp::from_micros(micros), part: 0 };
        }
        let part = due.part + span.part;
        let carry = u64::from(part >= self.quota);
        GcraState { tat: Timestamp::from_micros(micros + carry), part: part - carry * self.quota }
    }

    /// Returns the span from `now` to a due time.
    #[inline(always)]
    fn ahead(due: GcraState, now: Timestamp) -> Span {
        Span { micros: due.tat.as_micros() - now.as_micros(), part: due.part }
    }

    /// Returns whether `next` is at most the tolerance ahead of `now`. The fields are compared one
    /// by one, because the compiler makes a comparison of pairs branchless, which is slower here.
    /// The cost is checked too, because near the largest timestamp `next` saturates.
    #[inline(always)]
    fn tolerates(&self, next: GcraState, now: Timestamp, cost: u64) -> bool {
        let Span { micros, part } = Self::ahead(next, now);
        let tolerance = self.tolerance;
        // A burst is at least one unit, so a cost of one need not be compared with it.
        (cost == 1 || cost <= self.burst)
            && (micros < tolerance.micros || micros == tolerance.micros && part <= tolerance.part)
    }

    /// Returns the debt (the time from `now` to the arrival time) in parts.
    fn debt(&self, state: Option<&GcraState>, now: Timestamp) -> u128 {
        self.parts(Self::ahead(self.due(state, now), now))
    }

    /// Returns the state with a debt of this many parts.
    fn owing(&self, now: Timestamp, parts: u128) -> GcraState {
        self.after(GcraState { tat: now, part: 0 }, self.span(parts))
    }
}

impl Machine for Gcra {
    type State = GcraState;

    const HAS_BURST: bool = true;

    fn describe(rate: Rate) -> Description {
        Bucket::describe(rate)
    }

    fn capacity(&self) -> u64 {
        self.burst
    }

    #[inline(always)]
    fn fits(&self, state: Option<&GcraState>, now: Timestamp, cost: u64) -> bool {
        let next = self.after(self.due(state, now), self.worth(cost));
        self.tolerates(next, now, cost)
    }

    fn room(&self, state: Option<&GcraState>, now: Timestamp) -> u64 {
        let free = self.parts(self.tolerance).saturating_sub(self.debt(state, now));
        // The quotient is at most the burst, so it fits a `u64`.
        (free / u128::from(self.period)) as u64
    }

    fn used(&self, state: Option<&GcraState>, now: Timestamp) -> u64 {
        let units = self.debt(state, now).div_ceil(u128::from(self.period));
        u64::try_from(units).unwrap_or(MAX_UNITS).min(MAX_UNITS)
    }

    fn retry_at(&self, state: Option<&GcraState>, now: Timestamp, cost: u64) -> Timestamp {
        let wanted = self.debt(state, now) + self.parts(self.worth(cost));
        let early = wanted.saturating_sub(self.parts(self.tolerance));
        let Span { micros, part } = self.span(early);
        now.plus(micros.saturating_add(u64::from(part > 0)))
    }

    fn fresh_at(&self, state: &GcraState) -> Timestamp {
        state.tat.plus(u64::from(state.part > 0))
    }

    #[inline(always)]
    fn charge(&self, state: Option<GcraState>, now: Timestamp, units: u64) -> GcraState {
        let next = self.after(self.due(state.as_ref(), now), self.worth(units));
        next.min(self.owing(now, u128::from(MAX_UNITS) * u128::from(self.period)))
    }

    #[inline(always)]
    fn admit(&self, state: &mut Option<GcraState>, now: Timestamp, cost: u64) -> bool {
        let next = self.after(self.due(state.as_ref(), now), self.worth(cost));
        let fits = self.tolerates(next, now, cost);
        if fits {
            *state = Some(next);
        }
        fits
    }

    fn mark(&self, _state: &GcraState) -> u64 {
        0
    }

    /// Gives back at most the units that have not been refilled since the charge. The units of the
    /// receipt count as the first to be refilled.
    fn refund(
        &self,
        state: &GcraState,
        now: Timestamp,
        receipt: &Receipt,
    ) -> Option<Option<GcraState>> {
        let debt = self.debt(Some(state), now);
        let run_off = u128::from(self.quota) * u128::from(now.micros_since(receipt.at));
        let back = self.parts(self.worth(receipt.units)).saturating_sub(run_off);
        (back > 0 && debt > 0).then(|| {
            let rest = debt.saturating_sub(back);
            (rest > 0).then(|| self.owing(now, rest))
        })
    }

    fn set(&self, _state: Option<&GcraState>, now: Timestamp, units: u64) -> Option<GcraState> {
        (units > 0).then(|| self.after(GcraState { tat: now, part: 0 }, self.worth(units)))
    }

    fn written(&self, _state: &GcraState) -> u64 {
        0
    }

    fn aging(&self) -> Aging {
        Aging::Bucket
    }

    fn finds_by_time(&self) -> bool {
        true
    }

    fn drained_at(&self, until: Timestamp, at: Timestamp) -> Option<GcraState> {
        (until > at).then_some(GcraState { tat: until, part: 0 })
    }

    fn remote_state(&self, [tat, part, _]: [u64; 3]) -> Option<GcraState> {
        Some(GcraState { tat: Timestamp::from_micros(tat), part })
    }

    #[inline(always)]
    fn view(&self, state: Option<&GcraState>, _now: Timestamp, _step: &Step) -> View {
        View::Gcra(*self, state.copied())
    }
}
