//! Calendar window: one counter for each day, week, month, quarter or year of a time zone.
//!
//! **The simplest idea** is the fixed window with a period of a day or of 30 days. **Where it
//! fails:** people buy "10,000 per month", and a month has 28 to 31 days. Their day begins at
//! midnight in Berlin, not in Greenwich, and twice a year it has 23 or 25 hours.
//!
//! **What mends it.** Ask a calendar for the edges of the window, and keep them in the state: a
//! start, an end and a count. Windows are half-open and follow each other without a gap.
//!
//! ```text
//! 2/month       Jan 31, 23:59:59   Jan 31, 23:59:59 | Feb 1, 00:00:00
//!               allow              allow            | allow: a new window until March 1
//! ```
//!
//! **The bound.** In any span at most the quota for each window that the span touches.
//!
//! **What it gives up.** Fairness around the edges, as the fixed window. The edges of the future
//! are not certain, because governments change the rules of time zones.
//!
//! **Callers that disagree.** Two servers may have different rules of time zones, or a limit with a
//! name may get another zone or anchor while counts exist. Each caller brings the window of its own
//! calendar, and the state decides: while its window is open, it counts. A caller whose own window
//! ends earlier moves the end forward to that. After the end the window of the caller opens, from
//! the end of the old one at the earliest. So a disputed edge opens at most one more window, no
//! window opens twice, and no key is locked.
//!
//! **The guard against time going back** is the state: a hit at an earlier time is counted in its
//! window.

use super::{Aging, MAX_UNITS, Machine, Step, View, words};
use crate::calendar::{Calendar, CalendarUnit, Windows};
use crate::limit::{Description, Rate};
use crate::outcome::Receipt;
use crate::time::Timestamp;

/// The window and the units counted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarWindowState {
    /// The start of the window.
    pub start: Timestamp,
    /// The end of the window, which is not part of it.
    pub end: Timestamp,
    /// The units counted in the window.
    pub count: u64,
}

words!(
    CalendarWindowState,
    [start, end, count],
    3,
    Self { start: Timestamp::from_micros(start), end: Timestamp::from_micros(end), count },
    |s| [s.start.as_micros(), s.end.as_micros(), s.count]
);

/// The functions of the calendar window.
#[derive(Clone, Copy, Debug)]
pub struct CalendarWindow {
    quota: u64,
    charge_denied: bool,
    windows: Windows,
}

impl CalendarWindow {
    pub(crate) fn new(rate: Rate) -> Self {
        CalendarWindow {
            quota: rate.quota,
            charge_denied: rate.charge_denied,
            windows: Windows::new(calendar(rate)),
        }
    }

    /// Returns the window in which a hit at `now` counts, with the end that it has after the hit.
    #[inline(always)]
    fn current(&self, state: Option<&CalendarWindowState>, now: Timestamp) -> CalendarWindowState {
        let own = self.windows.at(now);
        match state {
            Some(state) if now < state.end => {
                // An end before the start is that of an earlier window: the clock was set back.
                let earlier = own.end < state.end && own.end > state.start;
                CalendarWindowState { end: if earlier { own.end } else { state.end }, ..*state }
            }
            Some(state) => {
                CalendarWindowState { start: own.start.max(state.end), end: own.end, count: 0 }
            }
            None => CalendarWindowState { start: own.start, end: own.end, count: 0 },
        }
    }
}

/// The calendar of a limit. Every limit with this algorithm has one.
fn calendar(rate: Rate) -> Calendar {
    rate.calendar.unwrap_or(Calendar::of(CalendarUnit::Day))
}

impl Machine for CalendarWindow {
    type State = CalendarWindowState;

    const IS_PERIODIC: bool = false;
    const CAN_CHARGE_DENIED: bool = true;

    fn describe(rate: Rate) -> Description {
        let (n, calendar) = (rate.quota, calendar(rate));
        let twice = n.saturating_mul(2);
        Description {
            admits: format!("{n} in each {calendar}"),
            at_most: format!(
                "{twice} around the edge of a {unit}; {n} for each {unit} that a span touches",
                unit = calendar.unit
            ),
        }
    }

    fn capacity(&self) -> u64 {
        self.quota
    }

    fn charges_denied(&self) -> bool {
        self.charge_denied
    }

    #[inline(always)]
    fn fits(&self, state: Option<&CalendarWindowState>, now: Timestamp, cost: u64) -> bool {
        self.used(state, now).saturating_add(cost) <= self.quota
    }

    fn room(&self, state: Option<&CalendarWindowState>, now: Timestamp) -> u64 {
        self.quota.saturating_sub(self.used(state, now))
    }

    #[inline(always)]
    fn used(&self, state: Option<&CalendarWindowState>, now: Timestamp) -> u64 {
        state.filter(|state| now < state.end).map_or(0, |state| state.count)
    }

    fn retry_at(
        &self,
        state: Option<&CalendarWindowState>,
        now: Timestamp,
        _cost: u64,
    ) -> Timestamp {
        self.current(state, now).end
    }

    fn fresh_at(&self, state: &CalendarWindowState) -> Timestamp {
        state.end
    }

    #[inline(always)]
    fn charge(
        &self,
        state: Option<CalendarWindowState>,
        now: Timestamp,
        units: u64,
    ) -> CalendarWindowState {
        let current = self.current(state.as_ref(), now);
        CalendarWindowState { count: current.count.saturating_add(units).min(MAX_UNITS), ..current }
    }

    /// Moves the end of the window forward, so that the wait that was reported stays true.
    fn attempt(
        &self,
        state: Option<&CalendarWindowState>,
        now: Timestamp,
    ) -> Option<CalendarWindowState> {
        let state = state.filter(|state| now < state.end)?;
        Some(self.current(Some(state), now))
    }

    fn mark(&self, state: &CalendarWindowState) -> u64 {
        state.start.as_micros()
    }

    fn refund(
        &self,
        state: &CalendarWindowState,
        now: Timestamp,
        receipt: &Receipt,
    ) -> Option<Option<CalendarWindowState>> {
        let open = now < state.end && state.start.as_micros() == receipt.mark;
        open.then(|| {
            Some(CalendarWindowState { count: state.count.saturating_sub(receipt.units), ..*state })
        })
    }

    fn set(
        &self,
        state: Option<&CalendarWindowState>,
        now: Timestamp,
        units: u64,
    ) -> Option<CalendarWindowState> {
        Some(CalendarWindowState { count: units, ..self.current(state, now) })
    }

    fn aging(&self) -> Aging {
        Aging::CalendarWindow
    }

    fn window_end(&self, mark: u64) -> Option<Timestamp> {
        Some(self.windows.at(Timestamp::from_micros(mark)).end)
    }

    fn remote_state(&self, [start, end, count]: [u64; 3]) -> Option<CalendarWindowState> {
        let (start, end) = (Timestamp::from_micros(start), Timestamp::from_micros(end));
        Some(CalendarWindowState { start, end, count })
    }

    #[inline(always)]
    fn view(&self, state: Option<&CalendarWindowState>, _now: Timestamp, _step: &Step) -> View {
        View::CalendarWindow(*self, state.copied())
    }
}
