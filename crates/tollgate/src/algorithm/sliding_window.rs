//! Sliding window: the moving window estimated from two counters.
//!
//! **The simplest idea** without edges is the moving window. **Where it fails:** its log grows with
//! the quota. **What mends it:** keep the counts of the open window and of the one before it, and
//! assume that the older hits were spread evenly. The previous window still counts in proportion to
//! the time that is left of the current one:
//!
//! ```text
//!            previous: 8            current: 3
//!        |----------------------|-------+--------------|
//!      12:00                  12:01   12:01:20       12:02
//!                     |~~~~~~~~~~~~~~~~~|   one period back from 12:01:20 covers 40 s of the previous window
//!
//!      8 * 40/60 + 3 = 8.33 in use; under 10/minute a cost of 1 passes, a cost of 2 does not
//! ```
//!
//! **Where that fails elsewhere.** Libraries align the windows to the clock and round the weighted
//! count down: a limit of 1 per day then admits a hit just before midnight and one just after. This
//! implementation opens the first window with the key's first hit, compares exact products and
//! rounds nothing.
//!
//! **The bound.** Below `2n` in any `p`, and 1 for `n = 1`.
//!
//! **What it gives up.** It is an estimate: hits that came early in the previous window count as if
//! they were still within the last period. A small quota at full demand gets less than `n` per `p`;
//! with `n = 1` one per `2p`, because the single hit fades only when the window after it ends.
//!
//! **The guard against time going back** is the start of the window: a hit at an earlier time
//! counts as if it came at the start.

use super::{Aging, MAX_UNITS, Machine, Step, View, words};
use crate::limit::{Description, Rate};
use crate::outcome::Receipt;
use crate::time::Timestamp;

/// The open window, its count, and the count of the window before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindowState {
    /// The time at which the current window opened.
    pub start: Timestamp,
    /// The units counted in the previous window.
    pub previous: u64,
    /// The units counted in the current window.
    pub current: u64,
}

words!(
    SlidingWindowState,
    [start, previous, current],
    3,
    Self { start: Timestamp::from_micros(start), previous, current },
    |s| [s.start.as_micros(), s.previous, s.current]
);

/// The functions of the sliding window.
#[derive(Clone, Copy, Debug)]
pub struct SlidingWindow {
    quota: u64,
    period: u64,
}

impl SlidingWindow {
    pub(crate) fn new(rate: Rate) -> Self {
        SlidingWindow { quota: rate.quota, period: rate.period }
    }

    /// Returns the windows at `now`. If the current window has ended, it becomes the previous one.
    /// If no units count any more, both windows are new.
    fn now(&self, state: Option<&SlidingWindowState>, now: Timestamp) -> SlidingWindowState {
        match state {
            Some(state) if now < state.start.plus(self.period) => *state,
            Some(state) if now < self.fresh_at(state) => SlidingWindowState {
                start: state.start.plus(self.period),
                previous: state.current,
                current: 0,
            },
            _ => SlidingWindowState { start: now, previous: 0, current: 0 },
        }
    }

    /// Returns the part of the previous window's count that still counts, multiplied by the period.
    fn fading(&self, windows: &SlidingWindowState, now: Timestamp) -> u128 {
        let left = self.period.saturating_sub(now.micros_since(windows.start));
        u128::from(windows.previous) * u128::from(left)
    }

    /// The `units` of a window fade during the next one. Returns how long before its end only
    /// `room` of them still count.
    fn lead(&self, units: u64, room: u64) -> u64 {
        match u128::from(room) * u128::from(self.period) / u128::from(units.max(1)) {
            lead if lead > u128::from(self.period) => self.period,
            lead => lead as u64,
        }
    }
}

impl Machine for SlidingWindow {
    type State = SlidingWindowState;

    fn describe(rate: Rate) -> Description {
        let (n, p) = (rate.quota, rate.span());
        Description {
            admits: format!(
                "about {n} in the last {p}: the window before counts by the part that is still in sight"
            ),
            at_most: match n {
                1 => format!("1 in any {p}"),
                _ => format!("below {} in any {p}", n.saturating_mul(2)),
            },
        }
    }

    fn capacity(&self) -> u64 {
        self.quota
    }

    #[inline(always)]
    fn fits(&self, state: Option<&SlidingWindowState>, now: Timestamp, cost: u64) -> bool {
        let windows = self.now(state, now);
        let period = u128::from(self.period);
        let counted = u128::from(windows.current) + u128::from(cost);
        self.fading(&windows, now) + counted * period <= u128::from(self.quota) * period
    }

    fn room(&self, state: Option<&SlidingWindowState>, now: Timestamp) -> u64 {
        self.quota.saturating_sub(self.used(state, now))
    }

    fn used(&self, state: Option<&SlidingWindowState>, now: Timestamp) -> u64 {
        let windows = self.now(state, now);
        // The quotient is at most `previous`, so it fits a `u64`.
        let fading = self.fading(&windows, now).div_ceil(u128::from(self.period)) as u64;
        windows.current.saturating_add(fading)
    }

    fn retry_at(&self, state: Option<&SlidingWindowState>, now: Timestamp, cost: u64) -> Timestamp {
        let windows = self.now(state, now);
        let end = windows.start.plus(self.period);
        match self.quota.checked_sub(windows.current.saturating_add(cost)) {
            Some(room) => end.minus(self.lead(windows.previous, room)),
            // The cost does not pass in this window. In the next window the current count is the
            // previous one.
            None => end
                .plus(self.period)
                .minus(self.lead(windows.current, self.quota.saturating_sub(cost))),
        }
    }

    fn fresh_at(&self, state: &SlidingWindowState) -> Timestamp {
        let end = state.start.plus(self.period);
        if state.current > 0 { end.plus(self.period) } else { end }
    }

    #[inline(always)]
    fn charge(
        &self,
        state: Option<SlidingWindowState>,
        now: Timestamp,
        units: u64,
    ) -> SlidingWindowState {
        let windows = self.now(state.as_ref(), now);
        SlidingWindowState {
            current: windows.current.saturating_add(units).min(MAX_UNITS),
            ..windows
        }
    }

    fn mark(&self, state: &SlidingWindowState) -> u64 {
        state.start.as_micros()
    }

    fn refund(
        &self,
        state: &SlidingWindowState,
        now: Timestamp,
        receipt: &Receipt,
    ) -> Option<Option<SlidingWindowState>> {
        if self.is_fresh(Some(state), now) {
            return None;
        }
        let windows = self.now(Some(state), now);
        let charged = Timestamp::from_micros(receipt.mark);
        if windows.start == charged {
            let current = windows.current.saturating_sub(receipt.units);
            Some(Some(SlidingWindowState { current, ..windows }))
        } else if windows.start == charged.plus(self.period) {
            let previous = windows.previous.saturating_sub(receipt.units);
            Some(Some(SlidingWindowState { previous, ..windows }))
        } else {
            None
        }
    }

    /// Takes units from the current window first, and then from the previous window.
    fn refund_units(
        &self,
        state: &SlidingWindowState,
        now: Timestamp,
        units: u64,
    ) -> Option<Option<SlidingWindowState>> {
        if self.is_fresh(Some(state), now) {
            return None;
        }
        let SlidingWindowState { start, previous, current } = self.now(Some(state), now);
        let previous = previous.saturating_sub(units.saturating_sub(current));
        Some(Some(SlidingWindowState { start, previous, current: current.saturating_sub(units) }))
    }

    fn set(
        &self,
        _state: Option<&SlidingWindowState>,
        now: Timestamp,
        units: u64,
    ) -> Option<SlidingWindowState> {
        Some(SlidingWindowState { start: now, previous: 0, current: units })
    }

    fn aging(&self) -> Aging {
        Aging::FadingWindow
    }

    fn window_end(&self, mark: u64) -> Option<Timestamp> {
        Some(Timestamp::from_micros(mark.saturating_add(self.period)))
    }

    fn remote_state(&self, [start, previous, current]: [u64; 3]) -> Option<SlidingWindowState> {
        Some(SlidingWindowState { start: Timestamp::from_micros(start), previous, current })
    }

    #[inline(always)]
    fn view(&self, state: Option<&SlidingWindowState>, _now: Timestamp, _step: &Step) -> View {
        View::SlidingWindow(*self, state.copied())
    }
}
