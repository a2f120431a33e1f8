//! Ban: shuts a key out for a while once the other limits of its policy have denied it repeatedly.
//!
//! **The simplest idea** is to deny and nothing else. **Where it fails:** a denial is cheap for the
//! client, so a scraper keeps sending at full speed and takes what the limit allows for ever.
//!
//! **What mends it.** A ban is a member of a policy. It does not count hits, it counts the denials
//! of the limits beside it, in a window that begins with the first denial. The denial that reaches
//! the count starts the ban and is itself answered with it. While the ban lasts, only it is
//! evaluated: the other limits are neither charged nor pushed.
//!
//! ```text
//! 2/minute fixed-window; ban after=3/minute for=1h
//!      12:00:00  12:00:01  12:00:02  12:00:03  12:00:04                     12:30:00  13:00:04
//!      allow     allow     deny (1)  deny (2)  deny (3): banned for 1 hour  banned    allow
//! ```
//!
//! **Its length** is `for`. With `doubling` each ban lasts twice as long as the one before, up to
//! `max`. The level, which is the number of doublings, returns to zero when `max` (without doubling:
//! `for`) has passed since the end of the last ban.
//!
//! **What it gives up.** Attempts do not extend a ban, so its end is known when it starts, and a
//! client may wait for it. With `push` every attempt starts the wait anew, as in an elastic window;
//! then a client that retries on a timer is never admitted again.
//!
//! **The guard against time going back** is the end of the ban, which only an attempt with `push`
//! and the next ban move, and only forward. An earlier time finds the key banned until that end.

use super::{Aging, Machine, Step, View, words};
use crate::limit::{BanTerms, Description, Rate};
use crate::outcome::Receipt;
use crate::time::Timestamp;

/// The bits of the count in the third word. The level has the bits above them.
const COUNT_BITS: u32 = 40;

/// More doublings than any ban needs to grow from a millisecond to a hundred years.
const MAX_LEVEL: u32 = 63;

/// The denials that were counted, and the latest ban.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BanState {
    /// The time of the first denial that is counted. It has no meaning if the count is 0.
    pub start: Timestamp,
    /// The end of the latest ban. Zero if there was none.
    pub end: Timestamp,
    /// The denials since `start`, fewer than start a ban.
    pub count: u64,
    /// The number of times that the length of the latest ban was doubled.
    pub level: u32,
}

words!(
    BanState,
    [start, end, packed],
    3,
    Self {
        start: Timestamp::from_micros(start),
        end: Timestamp::from_micros(end),
        count: packed & ((1 << COUNT_BITS) - 1),
        level: (packed >> COUNT_BITS) as u32,
    },
    |s| [s.start.as_micros(), s.end.as_micros(), s.count | u64::from(s.level) << COUNT_BITS]
);

/// The functions of the ban.
#[derive(Clone, Copy, Debug)]
pub struct Ban {
    /// The denials that start a ban.
    after: u64,
    /// The window in which the denials are counted, in microseconds.
    period: u64,
    terms: BanTerms,
}

impl Ban {
    pub(crate) fn new(rate: Rate) -> Self {
        // A limit with this algorithm always has terms: `LimitBuilder::build` checks it.
        let terms = rate.ban.unwrap_or_default();
        Ban { after: rate.quota, period: rate.period, terms }
    }

    /// Returns the number of limits before the ban in its policy, whose denials it counts.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.terms.watches.into()
    }

    /// Returns whether attempts of a banned key extend the ban.
    #[must_use]
    pub fn pushes(&self) -> bool {
        self.terms.push
    }

    /// Returns the numbers of the ban besides the count and the window of denials, for stores that
    /// execute it themselves: the length of the first ban and of the longest one, in microseconds.
    /// The level returns to zero when the second one has passed since the end of a ban.
    #[must_use]
    pub fn lengths(&self) -> [u64; 2] {
        [self.terms.length, self.longest()]
    }

    /// Returns whether the key is banned.
    pub(crate) fn is_banned(state: Option<&BanState>, now: Timestamp) -> bool {
        state.is_some_and(|state| now < state.end)
    }

    /// Returns the length of the longest ban. The level returns to zero after the same time.
    fn longest(&self) -> u64 {
        self.terms.max.unwrap_or(self.terms.length)
    }

    fn length(&self, level: u32) -> u64 {
        let BanTerms { length, .. } = self.terms;
        let longest = self.longest();
        // Doubling never overflows: it is not done if the result would be longer than the longest.
        if length > longest.checked_shr(level).unwrap_or(0) { longest } else { length << level }
    }

    /// Returns the denials in the current window.
    fn count(&self, state: &BanState, now: Timestamp) -> u64 {
        let is_open = state.count > 0 && now < state.start.plus(self.period);
        if is_open { state.count } else { 0 }
    }

    /// Returns the time at which the level returns to zero. Zero if there was no ban.
    fn forgiven_at(&self, state: &BanState) -> Timestamp {
        if state.end == Timestamp::EPOCH { state.end } else { state.end.plus(self.longest()) }
    }
}

impl Machine for Ban {
    type State = BanState;

    const IS_PERIODIC: bool = false;

    const COUNTS_DENIALS: bool = true;

    fn describe(rate: Rate) -> Description {
        let ban = Ban::new(rate);
        let (n, p) = (rate.quota, rate.span());
        let span = |micros: u64| Rate { period: micros, ..rate }.span();
        let [first, longest] = ban.lengths();
        let grows = match ban.terms.max {
            Some(_) => format!(", the next ones twice as long, up to {}", span(longest)),
            None => String::new(),
        };
        let pushed = if ban.terms.push { "; every attempt starts the wait anew" } else { "" };
        Description {
            admits: format!("nothing for {} after {n} denials in {p}{grows}{pushed}", span(first)),
            at_most: "no more than the other limits of the policy".to_owned(),
        }
    }

    fn capacity(&self) -> u64 {
        self.after
    }

    fn fits(&self, state: Option<&BanState>, now: Timestamp, _cost: u64) -> bool {
        !Ban::is_banned(state, now)
    }

    fn room(&self, state: Option<&BanState>, now: Timestamp) -> u64 {
        self.after - self.used(state, now)
    }

    fn used(&self, state: Option<&BanState>, now: Timestamp) -> u64 {
        match state {
            Some(state) if now < state.end => self.after,
            // A ban with a name may have had a larger count before.
            Some(state) => self.count(state, now).min(self.after - 1),
            None => 0,
        }
    }

    fn retry_at(&self, state: Option<&BanState>, now: Timestamp, _cost: u64) -> Timestamp {
        state.map_or(now, |state| state.end)
    }

    fn fresh_at(&self, state: &BanState) -> Timestamp {
        let counted =
            if state.count > 0 { state.start.plus(self.period) } else { Timestamp::EPOCH };
        counted.max(self.forgiven_at(state))
    }

    fn charge(&self, state: Option<BanState>, _now: Timestamp, _units: u64) -> BanState {
        state.unwrap_or_default()
    }

    fn attempt(&self, state: Option<&BanState>, now: Timestamp) -> Option<BanState> {
        let state = state.filter(|state| self.terms.push && now < state.end)?;
        Some(BanState { end: state.end.max(now.plus(self.length(state.level))), ..*state })
    }

    fn after_denial(&self, state: Option<&BanState>, now: Timestamp) -> Option<BanState> {
        let state = state.copied().unwrap_or_default();
        if now < state.end {
            return self.attempt(Some(&state), now);
        }
        let counted = self.count(&state, now);
        let start = if counted > 0 { state.start } else { now };
        let forgiven = now >= self.forgiven_at(&state);
        let kept = if forgiven { BanState::default() } else { state };
        if counted + 1 < self.after {
            return Some(BanState { start, count: counted + 1, ..kept });
        }
        let level = if forgiven { 0 } else { state.level.saturating_add(1).min(MAX_LEVEL) };
        Some(BanState { start: now, end: now.plus(self.length(level)), count: 0, level })
    }

    fn mark(&self, _state: &BanState) -> u64 {
        0
    }

    fn refund(
        &self,
        _state: &BanState,
        _now: Timestamp,
        _receipt: &Receipt,
    ) -> Option<Option<BanState>> {
        None
    }

    fn set(&self, state: Option<&BanState>, _now: Timestamp, _units: u64) -> Option<BanState> {
        state.copied()
    }

    fn aging(&self) -> Aging {
        Aging::Denials
    }

    fn remote_state(&self, words: [u64; 3]) -> Option<BanState> {
        Some(super::Words::from_words(words))
    }

    fn view(&self, state: Option<&BanState>, _now: Timestamp, _step: &Step) -> View {
        View::Ban(*self, state.copied())
    }
}
