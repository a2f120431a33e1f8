//! Fixed window: one counter for each window of the clock.
//!
//! **The simplest idea.** Cut time into windows of one period, `12:00 to 12:01`, `12:01 to 12:02`.
//! Count the hits of a key in the window that is open now; deny hits that would exceed the quota;
//! when the next window opens, begin at zero. The state is one number for each key, and everybody
//! understands "100 per minute, counted by the clock".
//!
//! **Where it fails.** The edge. A client that knows the clock sends its quota in the last instant
//! of one window and again in the first instant of the next: twice the quota within a moment.
//!
//! ```text
//! 3/minute      12:00:59   12:00:59   12:00:59 | 12:01:00   12:01:00   12:01:00
//!                allow      allow      allow   |  allow      allow      allow      six within two seconds
//! ```
//!
//! **The bound.** In any span of length `d` at most `n * (ceil(d/p) + 1)`. If that is too much, use
//! the moving window, which never admits more than `n` in any `p`.
//!
//! **What it gives up.** Fairness at the edges, for the smallest state and for windows that all
//! keys share, so that "resets at midnight" means midnight. Windows are counted from the Unix
//! epoch: a period of a day starts at midnight UTC, a week on a Thursday.
//!
//! **The guard against time going back** is the number of the window: a hit at an earlier time is
//! counted in the window of the state.

use super::{Aging, MAX_UNITS, Machine, Step, View, words};
use crate::limit::{Description, Rate};
use crate::outcome::Receipt;
use crate::time::Timestamp;

/// The window and the units counted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindowState {
    /// The number of the window, counted from the Unix epoch.
    pub window: u64,
    /// The units counted in the window.
    pub count: u64,
}

words!(FixedWindowState, [window, count], 2, Self { window, count }, |s| [s.window, s.count]);

/// The functions of the fixed window.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow {
    quota: u64,
    period: u64,
    charge_denied: bool,
}

impl FixedWindow {
    pub(crate) fn new(rate: Rate) -> Self {
        FixedWindow { quota: rate.quota, period: rate.period, charge_denied: rate.charge_denied }
    }

    /// Returns the window in which a hit at `now` counts: that of the clock, or that of the state
    /// if it is later.
    fn current(&self, state: Option<&FixedWindowState>, now: Timestamp) -> FixedWindowState {
        let window = now.as_micros() / self.period;
        match state {
            Some(state) if state.window >= window => *state,
            _ => FixedWindowState { window, count: 0 },
        }
    }
}

/// The bound of windows that each admit the whole quota.
pub(super) fn at_most_around_an_edge(rate: Rate) -> String {
    let (n, p) = (rate.quota, rate.span());
    let twice = n.saturating_mul(2);
    format!("{twice} in any {p}, around an edge; {n} * (ceil(d / {p}) + 1) in any span d")
}

impl Machine for FixedWindow {
    type State = FixedWindowState;

    const CAN_CHARGE_DENIED: bool = true;

    fn describe(rate: Rate) -> Description {
        let (n, p) = (rate.quota, rate.span());
        Description {
            admits: format!("{n} in each stretch of {p} of the clock, counted from 1970"),
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
    fn fits(&self, state: Option<&FixedWindowState>, now: Timestamp, cost: u64) -> bool {
        self.current(state, now).count.saturating_add(cost) <= self.quota
    }

    fn room(&self, state: Option<&FixedWindowState>, now: Timestamp) -> u64 {
        self.quota.saturating_sub(self.current(state, now).count)
    }

    fn used(&self, state: Option<&FixedWindowState>, now: Timestamp) -> u64 {
        self.current(state, now).count
    }

    fn retry_at(&self, state: Option<&FixedWindowState>, now: Timestamp, _cost: u64) -> Timestamp {
        self.fresh_at(&self.current(state, now))
    }

    fn fresh_at(&self, state: &FixedWindowState) -> Timestamp {
        Timestamp::from_micros(state.window.saturating_add(1).saturating_mul(self.period))
    }

    #[inline(always)]
    fn charge(
        &self,
        state: Option<FixedWindowState>,
        now: Timestamp,
        units: u64,
    ) -> FixedWindowState {
        let FixedWindowState { window, count } = self.current(state.as_ref(), now);
        FixedWindowState { window, count: count.saturating_add(units).min(MAX_UNITS) }
    }

    fn mark(&self, state: &FixedWindowState) -> u64 {
        state.window
    }

    fn refund(
        &self,
        state: &FixedWindowState,
        now: Timestamp,
        receipt: &Receipt,
    ) -> Option<Option<FixedWindowState>> {
        let open = now < self.fresh_at(state) && state.window == receipt.mark;
        open.then(|| {
            Some(FixedWindowState { count: state.count.saturating_sub(receipt.units), ..*state })
        })
    }

    fn set(
        &self,
        state: Option<&FixedWindowState>,
        now: Timestamp,
        units: u64,
    ) -> Option<FixedWindowState> {
        Some(FixedWindowState { window: self.current(state, now).window, count: units })
    }

    fn aging(&self) -> Aging {
        Aging::ClockWindow
    }

    fn window_end(&self, mark: u64) -> Option<Timestamp> {
        Some(Timestamp::from_micros(mark.saturating_add(1).saturating_mul(self.period)))
    }

    fn remote_state(&self, [window, count, _]: [u64; 3]) -> Option<FixedWindowState> {
        Some(FixedWindowState { window, count })
    }

    #[inline(always)]
    fn view(&self, state: Option<&FixedWindowState>, _now: Timestamp, _step: &Step) -> View {
        View::FixedWindow(*self, state.copied())
    }
}
