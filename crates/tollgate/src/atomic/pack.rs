//! The packing of states into words.
//!
//! The flags of a word take three bits ([`super::word`]). The table states how the other bits are
//! used. `tat` is the theoretical arrival time of GCRA, and a part is a fraction of a microsecond.
//!
//! | algorithm | narrow, 61 bits | wide, 125 bits |
//! | --- | --- | --- |
//! | fixed window | window 49, count 12 | window 62, count 50 |
//! | fixed window per key | start 49, count 12 | start 62, count 50 |
//! | elastic window | expiry 49, count 12 | expiry 62, count 50 |
//! | GCRA | tat 49, part 12 | tat 62, part 40 |
//! | sliding window | no | start 51, previous 37, current 37 |
//! | token and leaky bucket | no | time 51, level 74 |
//! | calendar window | no | start 38, length 26, count 61; times in seconds |
//!
//! Times of 49 and 51 bits are microseconds since one year before the store was created, so they
//! cover some 17 and 70 years. The narrow window number of a fixed window counts from the same
//! time. A hit at an earlier or later time is treated as one at the nearest time in the range
//! ([`Packing::within`]), so that its state can be written and counts. A GCRA part is always a
//! multiple of the greatest common divisor of quota and period, and is kept in units of that
//! divisor: 7 per second has parts of a seventh, 10 per second has no parts.
//!
//! A limit is packed into narrow words if they can count sixteen times its quota, which leaves room
//! for charges beyond the limit (units that do not fit are not charged, see [`fit`]), and if its
//! window is at most a year or its bucket refills within half a year. A limit with a name is packed
//! into wide words, because its quota may change and its packing must not. If a limit does not fit
//! wide words either, preparing it fails.

use crate::algorithm::calendar_window::{CalendarWindow, CalendarWindowState};
use crate::algorithm::elastic_window::{self, ElasticWindow};
use crate::algorithm::fixed_window::{self, FixedWindow};
use crate::algorithm::fixed_window_per_key::{self, FixedWindowPerKey};
use crate::algorithm::gcra::{self, Gcra};
use crate::algorithm::level::{self, Bucket};
use crate::algorithm::sliding_window::{self, SlidingWindow};
use crate::algorithm::{Machine, Step};
use crate::error::Error;
use crate::limit::{Algorithm, Limit, Rate};
use crate::time::Timestamp;

/// Charges may exceed the capacity by this factor before they are cut.
const BEYOND: u128 = 16;
const YEAR: u64 = 365 * 86_400 * 1_000_000;

/// A value for words of 64 bits (`N`) or of 128 bits (`W`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByWidth<N, W> {
    Narrow(N),
    Wide(W),
}

/// Runs `$body` with the value in a [`ByWidth`] and with the machine, for each combination of their
/// types.
macro_rules! with_packed {
    ($by_width:expr, $machine:expr, ($it:ident, $m:ident) => $body:expr) => {
        match ($by_width, $machine) {
            (ByWidth::Narrow($it), AnyMachine::Gcra($m)) => $body,
            (ByWidth::Narrow($it), AnyMachine::FixedWindow($m)) => $body,
            (ByWidth::Narrow($it), AnyMachine::FixedWindowPerKey($m)) => $body,
            (ByWidth::Narrow($it), AnyMachine::ElasticWindow($m)) => $body,
            (ByWidth::Wide($it), AnyMachine::FixedWindow($m)) => $body,
            (ByWidth::Wide($it), AnyMachine::FixedWindowPerKey($m)) => $body,
            (ByWidth::Wide($it), AnyMachine::ElasticWindow($m)) => $body,
            (ByWidth::Wide($it), AnyMachine::SlidingWindow($m)) => $body,
            (ByWidth::Wide($it), AnyMachine::TokenBucket($m) | AnyMachine::LeakyBucket($m)) => {
                $body
            }
            (ByWidth::Wide($it), AnyMachine::Gcra($m)) => $body,
            (ByWidth::Wide($it), AnyMachine::CalendarWindow($m)) => $body,
            _ => unreachable!("`width` returns a width that fits the machine"),
        }
    };
}
pub(super) use with_packed;

/// The numbers that packing needs in addition to the machine. They never change for a limit in a
/// store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    /// The time that is packed as zero, in microseconds.
    epoch: u64,
    /// The latest time of a hit whose state can be packed.
    last: Timestamp,
    /// The number of the fixed window that contains the epoch.
    first_window: u64,
    /// The unit in which a GCRA part is packed.
    part_unit: u64,
}

impl Packing {
    pub(super) fn new(limit: &Limit, made_at: Timestamp) -> Self {
        let Rate { quota, period, .. } = limit.rate();
        // If the clock is near the largest timestamp, the epoch is reduced, so that packed times do
        // not overflow.
        let epoch = match limit.algorithm() {
            // Whole seconds since 1970 fit.
            Algorithm::CalendarWindow => 0,
            _ => made_at.as_micros().saturating_sub(YEAR).min(1 << 61),
        };
        let first_window = epoch / period;
        let is_narrow = matches!(width(limit), Ok(ByWidth::Narrow(())));
        let last = match limit.algorithm() {
            Algorithm::FixedWindow if is_narrow => {
                (first_window + LAST_NARROW).saturating_mul(period)
            }
            // The time in a state is up to a year ahead of the hit, or more if units were charged
            // beyond the limit.
            _ if is_narrow => epoch + LAST_NARROW - 2 * YEAR,
            Algorithm::SlidingWindow | Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                epoch + (1 << 51) - 1
            }
            // The last window never ends, so its length cannot be packed.
            Algorithm::CalendarWindow => crate::calendar::LAST_EDGE - 1,
            _ => u64::MAX,
        };
        Packing {
            epoch,
            last: Timestamp::from_micros(last),
            first_window,
            // The quota of a limit with a name may change, so its part is packed without a divisor.
            part_unit: if limit.name().is_some() { 1 } else { gcd(quota, period) },
        }
    }

    /// Returns the time itself if it can be packed, otherwise the first or the last time that can.
    #[inline(always)]
    pub(super) fn within(&self, now: Timestamp) -> Timestamp {
        if now.as_micros() >= self.epoch && now <= self.last { now } else { self.nearest(now) }
    }

    #[cold]
    fn nearest(&self, now: Timestamp) -> Timestamp {
        static WARNED: std::sync::Once = std::sync::Once::new();
        WARNED.call_once(|| {
            tracing::warn!(
                "a hit at {now} is years away from the clock of its store and counts as a hit at the \
                 nearest time that Atomic and Direct can store"
            );
        });
        now.max(Timestamp::from_micros(self.epoch)).min(self.last)
    }

    #[inline(always)]
    fn since(&self, time: Timestamp, bits: u32) -> u64 {
        let since = time.as_micros().wrapping_sub(self.epoch);
        if since >> bits == 0 { since } else { self.out_of_range(time, bits) }
    }

    /// Returns the nearest packed time. It is a branch that is almost never taken, because clamping
    /// every time would slow down every hit.
    #[cold]
    fn out_of_range(&self, time: Timestamp, bits: u32) -> u64 {
        if time.as_micros() < self.epoch { 0 } else { (1 << bits) - 1 }
    }

    #[inline(always)]
    fn time(&self, since: u64) -> Timestamp {
        // The sum need not be clamped, because an epoch plus a number of 51 bits is below 2^62.
        Timestamp::EPOCH.plus_small(self.epoch + since)
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the width of the words for this limit, or an error if no width fits.
pub(super) fn width(limit: &Limit) -> Result<ByWidth<(), ()>, Error> {
    let Rate { algorithm, quota, period, burst, .. } = limit.rate();
    let fits = |units: u64, unit: u64, bits: u32| {
        u128::from(units) * u128::from(unit) * BEYOND < 1_u128 << bits
    };
    let narrow = match algorithm {
        Algorithm::FixedWindow | Algorithm::FixedWindowPerKey | Algorithm::ElasticWindow => {
            fits(quota, 1, 12) && period <= YEAR
        }
        Algorithm::Gcra => {
            let refill = u128::from(burst) * u128::from(period) / u128::from(quota);
            quota / gcd(quota, period) <= 1 << 12 && refill <= u128::from(YEAR / 2)
        }
        _ => false,
    };
    let too_large = match algorithm {
        Algorithm::MovingWindow => Some("a log of hits".to_owned()),
        Algorithm::Concurrent => Some("a concurrency limit".to_owned()),
        Algorithm::Budget => Some("a budget".to_owned()),
        Algorithm::Ban => Some("a ban".to_owned()),
        Algorithm::SlidingWindow if !fits(quota, 1, 37) => Some(format!("a quota of {quota}")),
        Algorithm::TokenBucket | Algorithm::LeakyBucket if !fits(burst, period, 74) => {
            Some(format!("a burst of {burst} with a period this long"))
        }
        Algorithm::FixedWindow
        | Algorithm::FixedWindowPerKey
        | Algorithm::ElasticWindow
        | Algorithm::SlidingWindow
        | Algorithm::TokenBucket
        | Algorithm::LeakyBucket
        | Algorithm::Gcra
        | Algorithm::CalendarWindow => None,
    };
    match too_large {
        Some(what) => {
            Err(Error::unsupported(limit, format!("Atomic cannot hold {what}; Memory can")))
        }
        None if narrow && limit.name().is_none() => Ok(ByWidth::Narrow(())),
        None => Ok(ByWidth::Wide(())),
    }
}

/// A machine whose states can be packed into a word `W`.
pub(super) trait Pack<W>: Machine {
    fn pack(&self, packing: &Packing, state: &Self::State) -> W;
    fn unpack(&self, packing: &Packing, payload: W) -> Self::State;
}

/// Reduces the state after `step` so that it fits a word: units that do not fit are not charged.
/// The state after an allowed hit always fits.
#[cold]
pub(super) fn fit<W, M: Pack<W>>(
    machine: &M,
    packing: &Packing,
    before: Option<&M::State>,
    state: &mut Option<M::State>,
    now: Timestamp,
    step: &mut Step,
) {
    let held = |state: &M::State| machine.unpack(packing, machine.pack(packing, state));
    let Some(most) = state.as_ref().map(held).filter(|held| state.as_ref() != Some(held)) else {
        return;
    };
    if step.charged > 0 {
        let used_before = machine.used(before, now);
        let room = machine.used(Some(&most), now).saturating_sub(used_before).min(step.charged);
        // Tries one unit less too, because the last unit may fit only in part.
        for units in [room, room.saturating_sub(1)] {
            let less = (units > 0).then(|| machine.charge(before.cloned(), now, units));
            if less.as_ref().is_none_or(|less| held(less) == *less) {
                *step = Step { charged: units, ..*step };
                // An attempt that charges zero units still extends an elastic window.
                let untouched = || machine.attempt(before, now).or_else(|| before.cloned());
                *state = less.or_else(untouched);
                return;
            }
        }
    }
    *state = Some(most);
}

const LAST_NARROW: u64 = (1 << 49) - 1;
const LOW: u64 = (1 << 12) - 1;

/// Packs a time and a small number into a narrow word.
#[inline(always)]
fn narrow(since: u64, number: u64) -> u64 {
    since << 12 | number.min(LOW)
}

/// Packs two numbers into a wide word. The second number is below 2^62.
fn pair(first: u64, second: u64) -> u128 {
    u128::from(first) << 62 | u128::from(second)
}

fn unpair(payload: u128) -> (u64, u64) {
    ((payload >> 62) as u64, payload as u64 & ((1 << 62) - 1))
}

impl Pack<u64> for FixedWindow {
    fn pack(&self, packing: &Packing, state: &fixed_window::FixedWindowState) -> u64 {
        let since = state.window.saturating_sub(packing.first_window).min(LAST_NARROW);
        narrow(since, state.count)
    }

    fn unpack(&self, packing: &Packing, payload: u64) -> fixed_window::FixedWindowState {
        let window = packing.first_window + (payload >> 12);
        fixed_window::FixedWindowState { window, count: payload & LOW }
    }
}

impl Pack<u128> for FixedWindow {
    fn pack(&self, _: &Packing, state: &fixed_window::FixedWindowState) -> u128 {
        pair(state.window, state.count)
    }

    fn unpack(&self, _: &Packing, payload: u128) -> fixed_window::FixedWindowState {
        let (window, count) = unpair(payload);
        fixed_window::FixedWindowState { window, count }
    }
}

/// Implements packing for a machine whose state is a time and a number.
macro_rules! pack_time_and_number {
    ($machine:ty, $state:path, $time:ident, $number:ident) => {
        impl Pack<u64> for $machine {
            #[inline(always)]
            fn pack(&self, packing: &Packing, state: &$state) -> u64 {
                narrow(packing.since(state.$time, 49), state.$number)
            }

            #[inline(always)]
            fn unpack(&self, packing: &Packing, payload: u64) -> $state {
                $state { $time: packing.time(payload >> 12), $number: payload & LOW }
            }
        }

        impl Pack<u128> for $machine {
            fn pack(&self, _: &Packing, state: &$state) -> u128 {
                pair(state.$time.as_micros(), state.$number)
            }

            fn unpack(&self, _: &Packing, payload: u128) -> $state {
                let ($time, $number) = unpair(payload);
                $state { $time: Timestamp::from_micros($time), $number }
            }
        }
    };
}

pack_time_and_number!(
    FixedWindowPerKey,
    fixed_window_per_key::FixedWindowPerKeyState,
    start,
    count
);
pack_time_and_number!(ElasticWindow, elastic_window::ElasticWindowState, expiry, count);

impl Pack<u64> for Gcra {
    #[inline(always)]
    fn pack(&self, packing: &Packing, state: &gcra::GcraState) -> u64 {
        // Most limits have no parts (fractions of a microsecond), so the slow division is usually
        // skipped.
        let part = if state.part == 0 { 0 } else { state.part / packing.part_unit };
        narrow(packing.since(state.tat, 49), part)
    }

    #[inline(always)]
    fn unpack(&self, packing: &Packing, payload: u64) -> gcra::GcraState {
        // If all times of the limit are whole microseconds, the compiler can skip all computations
        // with parts.
        let part = if self.is_whole() { 0 } else { (payload & LOW) * packing.part_unit };
        gcra::GcraState { tat: packing.time(payload >> 12), part }
    }
}

impl Pack<u128> for Gcra {
    fn pack(&self, _: &Packing, state: &gcra::GcraState) -> u128 {
        pair(state.tat.as_micros(), state.part)
    }

    fn unpack(&self, _: &Packing, payload: u128) -> gcra::GcraState {
        let (tat, part) = unpair(payload);
        gcra::GcraState { tat: Timestamp::from_micros(tat), part }
    }
}

/// Calendar windows begin and end with a second.
const SECOND: u64 = 1_000_000;

impl Pack<u128> for CalendarWindow {
    fn pack(&self, _: &Packing, state: &CalendarWindowState) -> u128 {
        let start = state.start.as_micros() / SECOND;
        let length = state.end.micros_since(state.start) / SECOND;
        u128::from(start) << 87
            | u128::from(length.min((1 << 26) - 1)) << 61
            | u128::from(state.count.min((1 << 61) - 1))
    }

    fn unpack(&self, _: &Packing, payload: u128) -> CalendarWindowState {
        let start = Timestamp::from_micros((payload >> 87) as u64 * SECOND);
        let length = (payload >> 61) as u64 & ((1 << 26) - 1);
        let count = payload as u64 & ((1 << 61) - 1);
        CalendarWindowState { start, end: start.plus(length * SECOND), count }
    }
}

impl Pack<u128> for SlidingWindow {
    fn pack(&self, packing: &Packing, state: &sliding_window::SlidingWindowState) -> u128 {
        const MAX: u64 = (1 << 37) - 1;
        u128::from(packing.since(state.start, 51)) << 74
            | u128::from(state.previous.min(MAX)) << 37
            | u128::from(state.current.min(MAX))
    }

    fn unpack(&self, packing: &Packing, payload: u128) -> sliding_window::SlidingWindowState {
        const MASK: u128 = (1 << 37) - 1;
        sliding_window::SlidingWindowState {
            start: packing.time((payload >> 74) as u64),
            previous: (payload >> 37 & MASK) as u64,
            current: (payload & MASK) as u64,
        }
    }
}

impl Pack<u128> for Bucket {
    fn pack(&self, packing: &Packing, state: &level::LevelState) -> u128 {
        u128::from(packing.since(state.time, 51)) << 74 | state.level.min((1 << 74) - 1)
    }

    fn unpack(&self, packing: &Packing, payload: u128) -> level::LevelState {
        level::LevelState {
            time: packing.time((payload >> 74) as u64),
            level: payload & ((1 << 74) - 1),
        }
    }
}
