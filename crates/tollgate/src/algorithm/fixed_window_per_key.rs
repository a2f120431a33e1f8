//! Fixed window per key: each key's window opens with its own first hit.
//!
//! **The simplest idea** is the fixed window on the clock. **Where it fails:** all keys reset at
//! the same instant, so all clients that wait retry in that instant. A new key at 12:00:59 gets a
//! window that lasts a second.
//!
//! **What mends it.** Open the window at the key's first hit and let it last a whole period; the
//! first hit after its end opens the next.
//!
//! ```text
//! 2/minute      12:00:40   12:00:50   12:01:10          12:01:40
//!                allow      allow      deny, wait 30 s   allow: a new window until 12:02:40
//! ```
//!
//! **The bound** is the fixed window's, `n * (ceil(d/p) + 1)` in any span `d`: the edges are still
//! there, only each key has its own.
//!
//! **What it gives up.** No clock time can be given at which all keys reset. A window whose units
//! were all given back stays open: only time closes it.
//!
//! **The guard against time going back** is the start of the window: a hit at an earlier time is
//! counted in that window.

use super::fixed_window::at_most_around_an_edge;
use super::{Aging, MAX_UNITS, Machine, Step, View, words};
use crate::limit::{Description, Rate};
use crate::outcome::Receipt;
use crate::time::Timestamp;

/// The time at which the window opened, and the units counted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindowPerKeyState {
    /// The time at which the window opened.
    pub start: Timestamp,
    /// The units counted in the window.
    pub count: u64,
}

words!(
    FixedWindowPerKeyState,
    [start, count],
    2,
    Self { start: Timestamp::from_micros(start), count },
    |s| [s.start.as_micros(), s.count]
);

/// The functions of the fixed window per key.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindowPerKey {
    quota: u64,
    period: u64,
    charge_denied: bool,
}

impl FixedWindowPerKey {
    pub(crate) fn new(rate: Rate) -> Self {
        FixedWindowPerKey {
            quota: rate.quota,
            period: rate.period,
            charge_denied: rate.charge_denied,
        }
    }

    /// Returns the window that is open at `now`, or the window that a hit would open.
    fn current(
        &self,
        state: Option<&FixedWindowPerKeyState>,
        now: Timestamp,
    ) -> FixedWindowPerKeyState {
        match state {
            Some(state) if now < self.fresh_at(state) => *state,
            _ => FixedWindowPerKeyState { start: now, count: 0 },
        }
    }
}

impl Machine for FixedWindowPerKey {
    type State = FixedWindowPerKeyState;

    const CAN_CHARGE_DENIED: bool = true;

    fn describe(rate: Rate) -> Description {
        let (n, p) = (rate.quota, rate.span());
        Description {
            admits: format!("{n} in {p} from the first hit of a key, then the next"),
            at_most: at_most_around_an_edge(rate),
        }
    }

    fn capacity(&self) -> u64 {
        self.quota
    }

    fn charges_denied(&self) -> bool {
        self.charge_denied
    }

    #[inline(always)]
    fn fits(&self, state: Option<&FixedWindowPerKeyState>, now: Timestamp, cost: u64) -> bool {
        self.current(state, now).count.saturating_add(cost) <= self.quota
    }

    fn room(&self, state: Option<&FixedWindowPerKeyState>, now: Timestamp) -> u64 {
        self.quota.saturating_sub(self.current(state, now).count)
    }

    fn used(&self, state: Option<&FixedWindowPerKeyState>, now: Timestamp) -> u64 {
        self.current(state, now).count
    }

    fn retry_at(
        &self,
        state: Option<&FixedWindowPerKeyState>,
        now: Timestamp,
        _cost: u64,
    ) -> Timestamp {
        self.fresh_at(&self.current(state, now))
    }

    fn fresh_at(&self, state: &FixedWindowPerKeyState) -> Timestamp {
        state.start.plus(self.period)
    }

    #[inline(always)]
    fn charge(
        &self,
        state: Option<FixedWindowPerKeyState>,
        now: Timestamp,
        units: u64,
    ) -> FixedWindowPerKeyState {
        let FixedWindowPerKeyState { start, count } = self.current(state.as_ref(), now);
        FixedWindowPerKeyState { start, count: count.saturating_add(units).min(MAX_UNITS) }
    }

    fn mark(&self, state: &FixedWindowPerKeyState) -> u64 {
        state.start.as_micros()
    }

    fn refund(
        &self,
        state: &FixedWindowPerKeyState,
        now: Timestamp,
        receipt: &Receipt,
    ) -> Option<Option<FixedWindowPerKeyState>> {
        let open = now < self.fresh_at(state) && state.start.as_micros() == receipt.mark;
        open.then(|| {
            Some(FixedWindowPerKeyState {
                count: state.count.saturating_sub(receipt.units),
                ..*state
            })
        })
    }

    fn set(
        &self,
        _state: Option<&FixedWindowPerKeyState>,
        now: Timestamp,
        units: u64,
    ) -> Option<FixedWindowPerKeyState> {
        Some(FixedWindowPerKeyState { start: now, count: units })
    }

    fn aging(&self) -> Aging {
        Aging::KeyWindow
    }

    fn window_end(&self, mark: u64) -> Option<Timestamp> {
        Some(Timestamp::from_micros(mark.saturating_add(self.period)))
    }

    fn remote_state(&self, [start, count, _]: [u64; 3]) -> Option<FixedWindowPerKeyState> {
        Some(FixedWindowPerKeyState { start: Timestamp::from_micros(start), count })
    }

    #[inline(always)]
    fn view(&self, state: Option<&FixedWindowPerKeyState>, _now: Timestamp, _step: &Step) -> View {
        View::FixedWindowPerKey(*self, state.copied())
    }
}
