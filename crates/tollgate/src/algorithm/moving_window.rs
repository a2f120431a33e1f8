//! Moving window: never more than the quota in any span of one period.
//!
//! **The simplest idea** without edges: remember when each hit came, and look back one period from
//! every new one. **Where it fails** elsewhere: libraries keep one entry for each unit (a hit of
//! cost 1000 is 1000 entries), let two hits of one microsecond overwrite each other, or walk the
//! whole log on every call.
//!
//! **What mends it.** An entry is (time, running total), so a hit of any cost is one entry, hits of
//! one microsecond add up in one, and the units in the window are the difference of two totals
//! found by binary search.
//!
//! ```text
//! 2/minute      12:00:00   12:00:40   12:00:59          12:01:00                12:01:39            12:01:40
//!                allow      allow      deny, wait 1 s    allow: the first left   deny, wait 1 s      allow
//! ```
//!
//! **The bound.** At most `n` in any half-open span of length `p`, hence `n * ceil(d/p)` in any
//! span `d`. No other algorithm promises that. An entry that is exactly `p` old no longer counts.
//!
//! **What it gives up.** Memory: 16 bytes for every hit that is still in the window. The sliding
//! window estimates it with three numbers.
//!
//! **The guard against time going back** is the newest entry: a hit at an earlier time is logged at
//! the time of that entry. A denied hit leaves the log as it is. Entries that no longer count are
//! dropped by the next charge.

use std::collections::VecDeque;

use super::{Aging, Fields, MAX_UNITS, Machine, Step, View};
use crate::limit::{Description, Rate};
use crate::outcome::{Outcome, Receipt};
use crate::time::Timestamp;

/// The log of a key: entries from oldest to newest.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MovingWindowState {
    entries: VecDeque<Entry>,
    /// The running total before the first entry.
    base: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: Timestamp,
    /// The number of units logged up to and including this entry. Totals may wrap around, because
    /// only their differences are used, which stay below 2^63.
    total: u64,
}

impl MovingWindowState {
    /// Returns the time and the units of each entry, the oldest first.
    ///
    /// ```
    /// use tollgate::{Timestamp, algorithm::moving_window::MovingWindowState};
    /// let log = MovingWindowState::from_entries([(Timestamp::from_micros(5), 3)]);
    /// assert_eq!(log.entries().collect::<Vec<_>>(), [(Timestamp::from_micros(5), 3)]);
    /// ```
    pub fn entries(&self) -> impl Iterator<Item = (Timestamp, u64)> + '_ {
        let mut before = self.base;
        self.entries.iter().map(move |entry| {
            let units = entry.total.wrapping_sub(before);
            before = entry.total;
            (entry.at, units)
        })
    }

    /// Creates a log from the time and the units of each entry, the oldest first. If an entry is
    /// earlier than the previous entry, it gets the time of the previous entry.
    ///
    /// ```
    /// use tollgate::algorithm::moving_window::MovingWindowState;
    /// assert_eq!(MovingWindowState::from_entries([]).entries().count(), 0);
    /// ```
    pub fn from_entries(entries: impl IntoIterator<Item = (Timestamp, u64)>) -> MovingWindowState {
        let mut log = MovingWindowState::default();
        for (at, units) in entries {
            log.push(at, units);
        }
        log
    }

    fn total(&self) -> u64 {
        self.entries.back().map_or(self.base, |entry| entry.total)
    }

    /// Returns the running total before the entry at `index`.
    fn before(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(self.base, |previous| self.entries[previous].total)
    }

    /// Returns the time at which a hit is logged: `now`, or the time of the newest entry if that is
    /// later.
    fn time(&self, now: Timestamp) -> Timestamp {
        self.entries.back().map_or(now, |newest| newest.at.max(now))
    }

    /// Returns the index of the oldest entry that still counts.
    fn first_live(&self, now: Timestamp, period: u64) -> usize {
        let time = self.time(now);
        self.entries.partition_point(|entry| entry.at.plus(period) <= time)
    }

    fn live_units(&self, now: Timestamp, period: u64) -> u64 {
        self.total().wrapping_sub(self.before(self.first_live(now, period)))
    }

    fn push(&mut self, at: Timestamp, units: u64) {
        let at = self.time(at);
        let total = self.total().wrapping_add(units);
        match self.entries.back_mut() {
            Some(newest) if newest.at == at => newest.total = total,
            _ => self.entries.push_back(Entry { at, total }),
        }
    }

    fn drop_first(&mut self, count: usize) {
        self.base = self.before(count);
        self.entries.drain(..count);
    }
}

/// The functions of the moving window.
#[derive(Clone, Copy, Debug)]
pub struct MovingWindow {
    quota: u64,
    period: u64,
}

impl MovingWindow {
    pub(crate) fn new(rate: Rate) -> Self {
        MovingWindow { quota: rate.quota, period: rate.period }
    }
}

impl Machine for MovingWindow {
    type State = MovingWindowState;

    fn describe(rate: Rate) -> Description {
        let (n, p) = (rate.quota, rate.span());
        Description {
            admits: format!("{n} in the last {p}, at any moment"),
            at_most: format!("{n} in any {p}; {n} * ceil(d / {p}) in any span d"),
        }
    }

    fn capacity(&self) -> u64 {
        self.quota
    }

    fn fits(&self, state: Option<&MovingWindowState>, now: Timestamp, cost: u64) -> bool {
        self.used(state, now).saturating_add(cost) <= self.quota
    }

    fn room(&self, state: Option<&MovingWindowState>, now: Timestamp) -> u64 {
        self.quota.saturating_sub(self.used(state, now))
    }

    fn used(&self, state: Option<&MovingWindowState>, now: Timestamp) -> u64 {
        state.map_or(0, |log| log.live_units(now, self.period))
    }

    fn retry_at(&self, state: Option<&MovingWindowState>, now: Timestamp, cost: u64) -> Timestamp {
        let Some(log) = state else { return now };
        let first = log.first_live(now, self.period);
        let before = log.before(first);
        let used = log.total().wrapping_sub(before);
        let must_leave = used.saturating_add(cost).saturating_sub(self.quota);
        // Finds the first entry after whose expiry enough units have left the window.
        let last = log.entries.partition_point(|entry| {
            // Entries before `first` have already left the window, and their difference would wrap
            // around.
            entry.at.plus(self.period) <= log.time(now)
                || entry.total.wrapping_sub(before) < must_leave
        });
        log.entries.get(last).map_or(now, |entry| entry.at.plus(self.period))
    }

    fn fresh_at(&self, state: &MovingWindowState) -> Timestamp {
        state.entries.back().map_or(Timestamp::EPOCH, |newest| newest.at.plus(self.period))
    }

    fn charge(
        &self,
        state: Option<MovingWindowState>,
        now: Timestamp,
        units: u64,
    ) -> MovingWindowState {
        let mut log = state.unwrap_or_default();
        log.drop_first(log.first_live(now, self.period));
        let used = log.live_units(now, self.period);
        log.push(now, units.min(MAX_UNITS.saturating_sub(used)));
        log
    }

    fn mark(&self, state: &MovingWindowState) -> u64 {
        state.entries.back().map_or(0, |newest| newest.at.as_micros())
    }

    fn refund(
        &self,
        state: &MovingWindowState,
        now: Timestamp,
        receipt: &Receipt,
    ) -> Option<Option<MovingWindowState>> {
        let at = Timestamp::from_micros(receipt.mark);
        let index = state.entries.binary_search_by_key(&at, |entry| entry.at).ok()?;
        if index < state.first_live(now, self.period) {
            return None;
        }
        let mut log = state.clone();
        let units = log.entries[index].total.wrapping_sub(log.before(index));
        let back = receipt.units.min(units);
        for entry in log.entries.range_mut(index..) {
            entry.total = entry.total.wrapping_sub(back);
        }
        if back == units {
            log.entries.remove(index);
        }
        Some((!log.entries.is_empty()).then_some(log))
    }

    fn refund_units(
        &self,
        state: &MovingWindowState,
        now: Timestamp,
        units: u64,
    ) -> Option<Option<MovingWindowState>> {
        let first = state.first_live(now, self.period);
        let before = state.before(first);
        let used = state.total().wrapping_sub(before);
        let left = used.saturating_sub(units);
        let mut log = state.clone();
        // An entry is removed if the entries before it contain all units that are to be left.
        while log.entries.len() > first
            && log.before(log.entries.len() - 1).wrapping_sub(before) >= left
        {
            log.entries.pop_back();
        }
        if left > 0
            && let Some(newest) = log.entries.back_mut()
        {
            newest.total = before.wrapping_add(left);
        }
        (left < used).then(|| (!log.entries.is_empty()).then_some(log))
    }

    fn set(
        &self,
        state: Option<&MovingWindowState>,
        now: Timestamp,
        units: u64,
    ) -> Option<MovingWindowState> {
        let at = state.map_or(now, |log| log.time(now));
        (units > 0).then(|| MovingWindowState::from_entries([(at, units)]))
    }

    fn aging(&self) -> Aging {
        Aging::Log
    }

    fn remote_state(&self, _numbers: [u64; 3]) -> Option<MovingWindowState> {
        None
    }

    /// Returns the outcome from numbers that the store computed, because the log is too long to be
    /// sent.
    fn remote_outcome(&self, numbers: Option<[u64; 3]>, now: Timestamp, step: Step) -> Outcome {
        let [used, newest, retry] = numbers.unwrap_or_default();
        let (quota, period) = (self.quota, self.period);
        let waits = if step.allowed { used >= quota && retry > 0 } else { step.cost <= quota };
        let fresh_at = Timestamp::from_micros(newest.saturating_add(period));
        let fields = Fields {
            limit: quota,
            remaining: quota.saturating_sub(used),
            used,
            retry_at: waits.then(|| Timestamp::from_micros(retry)),
            fresh_at: Some(fresh_at).filter(|at| numbers.is_some() && *at > now),
            mark: newest,
        };
        Outcome::of_fields(step, now, fields)
    }

    /// Computes all fields immediately, because the log cannot be copied into an outcome.
    fn view(&self, state: Option<&MovingWindowState>, now: Timestamp, step: &Step) -> View {
        View::Fields(Fields::of(self, state, now, step))
    }
}
