//! The arithmetic behind token bucket and leaky bucket: a level that sinks steadily, kept exactly.
//!
//! The level counts units in use. It sinks by `quota` units per `period` microseconds, that is by
//! `quota / period` units each microsecond, which is hardly ever whole. So the level is kept in
//! parts of `1 / period` of a unit: one unit is `period` parts, one microsecond takes `quota`
//! parts, and every product is a whole number. Nothing is rounded and nothing drifts: 7 per second
//! with burst 2 admits exactly 604,801 in a day: 604,800 and one more because of the burst.
//!
//! With quota and burst up to 10^12 and a period up to 100 years a level stays below 2^102 parts,
//! so no sum below can wrap a `u128`.

use super::{Aging, MAX_UNITS, Machine, Step, View, words};
use crate::limit::{Description, Rate};
use crate::outcome::{Receipt, Source};
use crate::time::Timestamp;

/// A level, and the time at which it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelState {
    /// The time at which the level was measured. It is also the guard against time going back.
    pub time: Timestamp,
    /// The units in use, in parts of `1 / period` of a unit, with the period in microseconds.
    pub level: u128,
}

words!(
    LevelState,
    [time, high, low],
    3,
    Self { time: Timestamp::from_micros(time), level: u128::from(high) << 64 | u128::from(low) },
    |s| [s.time.as_micros(), (s.level >> 64) as u64, s.level as u64]
);

/// The functions of a bucket.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    quota: u64,
    period: u64,
    burst: u64,
}

impl Bucket {
    pub(crate) fn new(rate: Rate) -> Self {
        Bucket { quota: rate.quota, period: rate.period, burst: rate.burst }
    }

    /// Converts units to parts.
    pub(super) fn parts(&self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.period)
    }

    /// Returns the level at `now`, or at the time of the state if that is later.
    #[inline]
    fn at(&self, state: Option<&LevelState>, now: Timestamp) -> LevelState {
        let Some(state) = state else { return LevelState { time: now, level: 0 } };
        let sunk = u128::from(self.quota) * u128::from(now.micros_since(state.time));
        LevelState { time: state.time.max(now), level: state.level.saturating_sub(sunk) }
    }

    /// Returns the time at which the level will have sunk by `parts`.
    fn sunk_at(&self, state: &LevelState, parts: u128) -> Timestamp {
        let micros = parts.div_ceil(u128::from(self.quota));
        state.time.plus(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

impl Machine for Bucket {
    type State = LevelState;

    const HAS_BURST: bool = true;

    fn describe(rate: Rate) -> Description {
        let Rate { quota: n, burst: b, .. } = rate;
        let (p, every) = (rate.span(), rate.interval());
        Description {
            admits: format!("{b} at once, then one every {every}: {n} in {p} in the long run"),
            at_most: format!(
                "{} in any {p}; {b} + floor(d * {n} / {p}) in any span d",
                b.saturating_add(n)
            ),
        }
    }

    fn capacity(&self) -> u64 {
        self.burst
    }

    #[inline(always)]
    fn fits(&self, state: Option<&LevelState>, now: Timestamp, cost: u64) -> bool {
        self.at(state, now).level + self.parts(cost) <= self.parts(self.burst)
    }

    fn room(&self, state: Option<&LevelState>, now: Timestamp) -> u64 {
        let free = self.parts(self.burst).saturating_sub(self.at(state, now).level);
        // The quotient is at most the burst, so it fits a `u64`.
        (free / u128::from(self.period)) as u64
    }

    fn used(&self, state: Option<&LevelState>, now: Timestamp) -> u64 {
        // The quotient is at most `MAX_UNITS`, so it fits a `u64`.
        self.at(state, now).level.div_ceil(u128::from(self.period)) as u64
    }

    fn retry_at(&self, state: Option<&LevelState>, now: Timestamp, cost: u64) -> Timestamp {
        let state = self.at(state, now);
        self.sunk_at(
            &state,
            (state.level + self.parts(cost)).saturating_sub(self.parts(self.burst)),
        )
    }

    fn fresh_at(&self, state: &LevelState) -> Timestamp {
        self.sunk_at(state, state.level)
    }

    #[inline(always)]
    fn charge(&self, state: Option<LevelState>, now: Timestamp, units: u64) -> LevelState {
        let LevelState { time, level } = self.at(state.as_ref(), now);
        LevelState { time, level: (level + self.parts(units)).min(self.parts(MAX_UNITS)) }
    }

    fn mark(&self, state: &LevelState) -> u64 {
        state.time.as_micros()
    }

    /// Gives back at most the units that have not leaked since the charge. The units of the receipt
    /// count as the first to leak.
    fn refund(
        &self,
        state: &LevelState,
        now: Timestamp,
        receipt: &Receipt,
    ) -> Option<Option<LevelState>> {
        let LevelState { time, level } = self.at(Some(state), now);
        let since = time.micros_since(Timestamp::from_micros(receipt.mark));
        let sunk = u128::from(self.quota) * u128::from(since);
        let back = self.parts(receipt.units).saturating_sub(sunk);
        (back > 0 && level > 0).then(|| {
            let level = level.saturating_sub(back);
            (level > 0).then_some(LevelState { time, level })
        })
    }

    fn refund_units(
        &self,
        state: &LevelState,
        now: Timestamp,
        units: u64,
    ) -> Option<Option<LevelState>> {
        // The mark is the current time of the level, as if these units were charged now and none of
        // them had leaked.
        let mark = self.mark(&self.at(Some(state), now));
        self.refund(state, now, &Receipt { units, at: now, mark, source: Source::Store })
    }

    fn set(&self, state: Option<&LevelState>, now: Timestamp, units: u64) -> Option<LevelState> {
        let LevelState { time, .. } = self.at(state, now);
        (units > 0).then(|| LevelState { time, level: self.parts(units) })
    }

    fn aging(&self) -> Aging {
        Aging::Bucket
    }

    fn drained_at(&self, until: Timestamp, at: Timestamp) -> Option<LevelState> {
        let level = u128::from(self.quota) * u128::from(until.micros_since(at));
        (until > at).then_some(LevelState { time: at, level })
    }

    fn remote_state(&self, [time, units, rest]: [u64; 3]) -> Option<LevelState> {
        Some(LevelState {
            time: Timestamp::from_micros(time),
            level: self.parts(units) + u128::from(rest),
        })
    }

    #[inline(always)]
    fn view(&self, state: Option<&LevelState>, _now: Timestamp, _step: &Step) -> View {
        View::TokenBucket(*self, state.copied())
    }
}
