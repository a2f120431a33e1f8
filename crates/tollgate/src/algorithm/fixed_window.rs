//! Fixed window: one counter for each stretch of the clock.
//!
//! **The simplest idea.** Cut time into windows of one period, `12:00 to 12:01`, `12:01 to 12:02`. Count the hits of a key in the window that
//! is open now; when the count would pass the quota, say no; when the next window opens, begin at zero. One number for each key, and
//! everybody understands "100 per minute, counted by the clock".
//!
//! **Where it fails.** The edge. A client that knows the clock sends its quota in the last instant of one window and again in the first
//! instant of the next: twice the quota within a moment.
//!
//! ```text
//! 3/minute      12:00:59   12:00:59   12:00:59 | 12:01:00   12:01:00   12:01:00
//!                allow      allow      allow   |  allow      allow      allow      six within two seconds
//! ```
//!
//! **The bound.** In any span of length `d` at most `n * (ceil(d/p) + 1)`. If that is too much, the moving window never passes `n` in any `p`.
//!
//! **What it gives up.** Fairness at the edges, for the smallest state and for windows that all keys share, so that "resets at midnight" means
//! midnight. Windows are counted from the Unix epoch: a period of a day starts at midnight UTC, a week on a Thursday.
//!
//! **The guard against time going back** is the window's number: a hit from before it is counted in it.

use super::{MAX_UNITS, Machine, Step, View};
use crate::decision::Receipt;
use crate::limit::Rate;
use crate::time::Timestamp;

/// The window and what was counted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Windows since the Unix epoch.
    pub window: u64,
    /// Units counted.
    pub count: u64,
}

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

    /// The window of a hit now: the clock's, or the state's if that is later.
    fn current(&self, state: Option<&State>, now: Timestamp) -> State {
        let window = now.as_micros() / self.period;
        match state {
            Some(state) if state.window >= window => *state,
            _ => State { window, count: 0 },
        }
    }
}

impl Machine for FixedWindow {
    type State = State;

    fn capacity(&self) -> u64 {
        self.quota
    }

    fn charges_denied(&self) -> bool {
        self.charge_denied
    }

    #[inline(always)]
    fn fits(&self, state: Option<&State>, now: Timestamp, cost: u64) -> bool {
        self.current(state, now).count.saturating_add(cost) <= self.quota
    }

    fn room(&self, state: Option<&State>, now: Timestamp) -> u64 {
        self.quota.saturating_sub(self.current(state, now).count)
    }

    fn used(&self, state: Option<&State>, now: Timestamp) -> u64 {
        self.current(state, now).count
    }

    fn retry_at(&self, state: Option<&State>, now: Timestamp, _cost: u64) -> Timestamp {
        self.fresh_at(&self.current(state, now))
    }

    fn fresh_at(&self, state: &State) -> Timestamp {
        Timestamp::from_micros(state.window.saturating_add(1).saturating_mul(self.period))
    }

    #[inline(always)]
    fn charge(&self, state: Option<State>, now: Timestamp, units: u64) -> State {
        let State { window, count } = self.current(state.as_ref(), now);
        State { window, count: count.saturating_add(units).min(MAX_UNITS) }
    }

    fn mark(&self, state: &State) -> u64 {
        state.window
    }

    fn refund(&self, state: &State, now: Timestamp, receipt: &Receipt) -> Option<Option<State>> {
        let open = now < self.fresh_at(state) && state.window == receipt.mark;
        open.then(|| Some(State { count: state.count.saturating_sub(receipt.units), ..*state }))
    }

    fn set(&self, state: Option<&State>, now: Timestamp, units: u64) -> Option<State> {
        Some(State { window: self.current(state, now).window, count: units })
    }

    #[inline(always)]
    fn view(&self, state: Option<&State>, _now: Timestamp, _step: &Step) -> View {
        View::FixedWindow(*self, state.copied())
    }
}
