//! How states are packed into words.
//!
//! The flags of a word take three bits ([`super::word`]). The rest:
//!
//! | algorithm | narrow, 61 bits | wide, 125 bits |
//! | --- | --- | --- |
//! | fixed window | window 49, count 12 | window 62, count 50 |
//! | fixed window per key | start 49, count 12 | start 62, count 50 |
//! | elastic window | expiry 49, count 12 | expiry 62, count 50 |
//! | GCRA | tat 49, part 12 | tat 62, part 40 |
//! | sliding window | no | start 51, previous 37, current 37 |
//! | token and leaky bucket | no | time 51, level 74 |
//!
//! Times of 49 and 51 bits are microseconds since one year before the store was made, so they last
//! 14 and 70 years from then; the fixed window's narrow number counts windows from the same time.
//! Time stands still before and after that ([`Packing::within`]), so a hit at such a time is never
//! admitted because its state cannot be written. A GCRA part is kept in units of the greatest
//! common divisor of quota and period, of which it is always a multiple: 7 per second has parts of
//! sevenths, 10 per second has none.
//!
//! A limit is packed narrow when its exact state fits: at least sixteen times the capacity, so that
//! charges beyond the limit have room too (what does not fit is not charged, see [`fit`]), and half
//! a year of debt or a year of a window. A limit with a name is packed wide, because its quota may
//! change and the packing must not. A limit that does not fit wide either is an error.

use crate::algorithm::elastic_window::{self, ElasticWindow};
use crate::algorithm::fixed_window::{self, FixedWindow};
use crate::algorithm::fixed_window_per_key::{self, FixedWindowPerKey};
use crate::algorithm::gcra::{self, Gcra};
use crate::algorithm::level::{self, Level};
use crate::algorithm::sliding_window::{self, SlidingWindow};
use crate::algorithm::{Machine, Step};
use crate::error::Error;
use crate::limit::{Algorithm, Limit, Rate};
use crate::time::Timestamp;

/// Charges may go beyond the capacity by this factor before they saturate.
const BEYOND: u128 = 16;
const YEAR: u64 = 365 * 86_400 * 1_000_000;

/// A value for each width of word: `N` for 64 bits, `W` for 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByWidth<N, W> {
    Narrow(N),
    Wide(W),
}

/// Runs `$body` with the value for the width of word and with the machine, whatever their types.
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
            _ => unreachable!("`width` gives every machine a word that holds it"),
        }
    };
}
pub(super) use with_packed;

/// The numbers that packing needs besides the machine. They are fixed for a limit as long as the
/// store lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    /// The time from which packed times count, in microseconds.
    epoch: u64,
    /// The latest time of a hit that can be packed.
    last: Timestamp,
    /// The epoch in windows of a fixed window.
    first_window: u64,
    /// The unit of a GCRA part.
    part_unit: u64,
}

impl Packing {
    pub(super) fn new(limit: &Limit, made_at: Timestamp) -> Self {
        let Rate { quota, period, .. } = limit.rate();
        // A clock that is set to the end of time still leaves room for packed times.
        let epoch = made_at.as_micros().saturating_sub(YEAR).min(1 << 61);
        let first_window = epoch / period;
        let is_narrow = matches!(width(limit), Ok(ByWidth::Narrow(())));
        let last = match limit.algorithm() {
            Algorithm::FixedWindow if is_narrow => {
                (first_window + LAST_NARROW).saturating_mul(period)
            }
            // States lie up to a year ahead, more where units were charged beyond the limit.
            _ if is_narrow => epoch + LAST_NARROW - 2 * YEAR,
            Algorithm::SlidingWindow | Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                epoch + (1 << 51) - 1
            }
            _ => u64::MAX,
        };
        Packing {
            epoch,
            last: Timestamp::from_micros(last),
            first_window,
            // With a name the quota may change, so the part is kept as it is.
            part_unit: if limit.name().is_some() { 1 } else { gcd(quota, period) },
        }
    }

    /// The nearest time that can be packed: time stands still before the first and after the last.
    #[inline(always)]
    pub(super) fn within(&self, now: Timestamp) -> Timestamp {
        if now.as_micros() >= self.epoch && now <= self.last { now } else { self.nearest(now) }
    }

    #[cold]
    fn nearest(&self, now: Timestamp) -> Timestamp {
        static WARNED: std::sync::Once = std::sync::Once::new();
        WARNED.call_once(|| {
            tracing::warn!(
                "a hit at {now}, years away from the clock of its store, counts as one at the \
                 nearest time that Atomic and Direct can hold"
            );
        });
        now.max(Timestamp::from_micros(self.epoch)).min(self.last)
    }

    #[inline(always)]
    fn since(&self, time: Timestamp, bits: u32) -> u64 {
        let since = time.as_micros().wrapping_sub(self.epoch);
        if since >> bits == 0 { since } else { self.out_of_range(time, bits) }
    }

    /// A branch that is never taken costs a hit nothing; clamping would be on the path of every
    /// hit.
    #[cold]
    fn out_of_range(&self, time: Timestamp, bits: u32) -> u64 {
        if time.as_micros() < self.epoch { 0 } else { (1 << bits) - 1 }
    }

    #[inline(always)]
    fn time(&self, since: u64) -> Timestamp {
        // Not clamped: an epoch and 51 bits are below 2^62.
        Timestamp::EPOCH.plus_small(self.epoch + since)
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// How wide the words of this limit must be.
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
        Algorithm::SlidingWindow if !fits(quota, 1, 37) => Some(format!("a quota of {quota}")),
        Algorithm::TokenBucket | Algorithm::LeakyBucket if !fits(burst, period, 74) => {
            Some(format!("a burst of {burst} with so long a period"))
        }
        _ => None,
    };
    match too_large {
        Some(what) => {
            Err(Error::unsupported(limit, format!("Atomic cannot hold {what}; Memory can")))
        }
        None if narrow && limit.name().is_none() => Ok(ByWidth::Narrow(())),
        None => Ok(ByWidth::Wide(())),
    }
}

/// A machine whose states fit a word.
pub(super) trait Pack<W>: Machine {
    fn pack(&self, packing: &Packing, state: &Self::State) -> W;
    fn unpack(&self, packing: &Packing, payload: W) -> Self::State;
}

/// Reduces the state after `step` so that it fits its word: units that do not fit are not charged.
/// An allowed hit always fits.
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
        // One less where the last unit fits only in part.
        for units in [room, room.saturating_sub(1)] {
            let less = (units > 0).then(|| machine.charge(before.cloned(), now, units));
            if less.as_ref().is_none_or(|less| held(less) == *less) {
                *step = Step { charged: units, ..*step };
                // An attempt that charges nothing still moves the end of an elastic window.
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

/// A time and a small number in a narrow word.
#[inline(always)]
fn narrow(since: u64, number: u64) -> u64 {
    since << 12 | number.min(LOW)
}

/// Two numbers in a wide word, the second below 2^62.
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

/// A state that is a time and a number, both ways.
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
        // Most limits have no parts, and a division is slow.
        let part = if state.part == 0 { 0 } else { state.part / packing.part_unit };
        narrow(packing.since(state.tat, 49), part)
    }

    #[inline(always)]
    fn unpack(&self, packing: &Packing, payload: u64) -> gcra::GcraState {
        // A whole quota has no parts, and knowing that beforehand skips all sums of parts.
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

impl Pack<u128> for Level {
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
