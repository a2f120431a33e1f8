//! The allotments of a node for one key: pure functions of what callers ask, what the store
//! answered, and the node's own time.

use std::collections::VecDeque;

use tollgate::algorithm::{Fields, Step};
use tollgate::{Outcome, Receipt, Source, Timestamp};

use super::terms::Terms;

/// The next allotment is fetched when this part of the allotments is left.
const LOW: u64 = 4;

/// A store that had nothing is asked again after this part of the life of an allotment. Units that
/// flow back meanwhile are then drawn together.
const PACE: u32 = 8;

/// Units of one draw that may be spent until the allotment ends.
#[derive(Debug)]
struct Allotment {
    granted: u64,
    left: u64,
    sent: Timestamp,
    end: Timestamp,
    /// The receipt of the draw. Its `at` is the store's time.
    draw: Receipt,
}

/// Units that will never be spent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unspent {
    pub(crate) units: u64,
    /// The receipt of the whole draw, with the spent units.
    pub(crate) draw: Receipt,
    /// The store's time, or a little later.
    pub(crate) now: Timestamp,
}

/// The allotments of a node for one key. Times are those of the node, unless stated otherwise.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    /// Ordered by their ends: the first one is spent first. Never more than a few.
    allotments: VecDeque<Allotment>,
    /// The answer to the last draw.
    last: Option<Last>,
    /// The size of the next draw, from how fast the last ones were spent.
    size: u64,
    /// Whether a draw is under way.
    pub(crate) drawing: bool,
    /// Whether something was spent since the last sweep.
    pub(crate) used: bool,
}

#[derive(Debug)]
struct Last {
    answer: Outcome,
    /// The fields of the answer at its time.
    reported: Fields,
    sent: Timestamp,
    /// The store had less than was asked for. It is not asked again before this time.
    pause: Option<Timestamp>,
}

impl Holding {
    /// Units that may be spent now.
    pub(crate) fn left(&self, now: Timestamp) -> u64 {
        self.allotments.iter().filter(|held| now < held.end).map(|held| held.left).sum()
    }

    /// Spends `cost` units, or denies while the store is known to have nothing. The flag is true if
    /// more should be fetched. `None`: the store has to be asked.
    pub(crate) fn hit(
        &mut self,
        terms: &Terms,
        now: Timestamp,
        cost: u64,
    ) -> Option<(Outcome, bool)> {
        if self.left(now) < cost {
            return Some((self.refusal(now, cost)?, false));
        }
        let mark = self.spend(terms, now, cost);
        let decision = self.decision(now, cost, cost, mark)?;
        Some((decision, self.low(terms, now)))
    }

    /// The outcome that a hit would have, if the allotments suffice to compute it.
    pub(crate) fn peek(&self, now: Timestamp, cost: u64) -> Option<Outcome> {
        if self.left(now) < cost { None } else { self.decision(now, cost, 0, 0) }
    }

    /// Spends up to `most` units. The outcome says how many were charged.
    pub(crate) fn take(&mut self, terms: &Terms, now: Timestamp, most: u64) -> Option<Outcome> {
        let units = self.left(now).min(most);
        if units == 0 {
            return None;
        }
        let mark = self.spend(terms, now, units);
        self.decision(now, most, units, mark)
    }

    /// A denial, if the store has lately had less than this cost.
    pub(crate) fn refusal(&self, now: Timestamp, cost: u64) -> Option<Outcome> {
        let last = self.last.as_ref()?;
        let pause = last.pause.filter(|pause| now < *pause)?;
        let at = last.store_time(now);
        // Callers need not come back before the store is asked again.
        let asked_again = last.store_time(pause);
        let again = last.answer.asked_again(at, cost.saturating_sub(self.left(now)));
        let known = again.as_ref().unwrap_or(&last.answer);
        let Fields { limit, retry_at, .. } = known.fields();
        let wait = retry_at.filter(|_| !known.allowed());
        let retry_at =
            (cost <= limit).then(|| wait.map_or(asked_again, |retry| retry.max(asked_again)));
        let step = Step { allowed: false, cost, charged: 0, changed: false };
        let fields = Fields { retry_at, ..self.fields(last, now) };
        Some(Outcome::of_fields(step, at, fields).with_source(Source::DenialCache))
    }

    /// Units to draw when callers wait for `needed` units: as many as are spent in half the life of
    /// an allotment, but no more than a fair share of the remaining units. A bucket that is nearly
    /// empty still gets units back all the time, so the share is at least that of the units that
    /// flow back soon.
    pub(crate) fn want(&self, terms: &Terms, nodes: u64, needed: u64) -> u64 {
        let fair = self.last.as_ref().map_or(1, |last| {
            let flows = terms.flows_back(terms.life / 4);
            (last.reported.remaining / (2 * nodes)).max(flows / nodes)
        });
        self.size.min(fair).max(needed).max(1)
    }

    /// Adds the answer to a draw of `want` units that was sent at `sent`; `left` of it is not
    /// promised to callers. Returns what has ended meanwhile or came too late to be spent, as
    /// [`surrender`](Holding::surrender) does.
    pub(crate) fn drawn(
        &mut self,
        terms: &Terms,
        (sent, now): (Timestamp, Timestamp),
        (want, left): (u64, u64),
        answer: Outcome,
    ) -> Vec<Unspent> {
        let draw = answer.receipt();
        let reported = answer.fields();
        let nothing_left = draw.units < want && reported.remaining == 0;
        let pause = nothing_left.then(|| {
            let wait = answer.retry_after().unwrap_or(terms.life);
            sent + wait.max(terms.life / PACE).min(terms.life)
        });
        self.grow(terms, now);
        self.used = true;
        self.last = Some(Last { answer, reported, sent, pause });
        if left > 0 {
            let end = terms.end(sent, &draw);
            let at = self.allotments.partition_point(|held| held.end <= end);
            self.allotments.insert(at, Allotment { granted: left, left, sent, end, draw });
        }
        self.surrender(now, false)
    }

    /// Puts spent units back into the living allotment with that mark; `None` if it has ended.
    pub(crate) fn put_back(
        &mut self,
        terms: &Terms,
        now: Timestamp,
        receipt: &Receipt,
    ) -> Option<Outcome> {
        let same = |held: &&mut Allotment| now < held.end && terms.mark(&held.draw) == receipt.mark;
        let held = self.allotments.iter_mut().find(same)?;
        held.left = held.left.saturating_add(receipt.units).min(held.granted);
        self.peek(now, 0)
    }

    /// Removes allotments that have ended, or all.
    pub(crate) fn surrender(&mut self, now: Timestamp, all: bool) -> Vec<Unspent> {
        let mut unspent = Vec::new();
        let mut ended_full = false;
        self.allotments.retain(|held| {
            let keep = !all && now < held.end;
            if !keep && held.left > 0 {
                ended_full |= held.left > held.granted / 2;
                unspent.push(Unspent {
                    units: held.left,
                    draw: held.draw,
                    now: held.draw.at + now.since(held.sent),
                });
            }
            keep && held.left > 0
        });
        if ended_full {
            self.size /= 2;
        }
        unspent
    }

    /// Whether there are no allotments, no draw and nothing to remember.
    pub(crate) fn is_idle(&self, now: Timestamp) -> bool {
        let pausing =
            self.last.as_ref().and_then(|last| last.pause).is_some_and(|pause| now < pause);
        self.allotments.is_empty() && !self.drawing && !pausing && !self.used
    }

    /// Forgets all allotments: an operator has reset or set the counter that they belong to.
    pub(crate) fn forget(&mut self) {
        let drawing = self.drawing;
        *self = Holding { drawing, ..Holding::default() };
    }

    /// A draw within half the life of the previous one, which was answered in full, makes the next
    /// larger.
    fn grow(&mut self, terms: &Terms, now: Timestamp) {
        let Some(last) = &self.last else { return };
        if last.pause.is_none() && now.since(last.sent) < terms.life / 2 {
            self.size = self.size.max(1).saturating_mul(2);
        }
    }

    /// Whether to fetch the next allotment: at most a quarter is left, it will not last, and the
    /// store has some.
    fn low(&self, terms: &Terms, now: Timestamp) -> bool {
        let Some(last) = &self.last else { return false };
        let granted: u64 = self.allotments.iter().map(|held| held.granted).sum();
        let low = self.left(now) <= granted / LOW;
        let quick =
            self.allotments.back().is_some_and(|held| now.since(held.sent) < terms.life / 2);
        low && quick
            && granted > 1
            && !self.drawing
            && last.pause.is_none()
            && last.reported.remaining > 0
    }

    /// Takes units, which must be there, from the allotments that end first. Returns the mark of
    /// the first of them.
    fn spend(&mut self, terms: &Terms, now: Timestamp, mut units: u64) -> u64 {
        self.used = true;
        let mut mark = None;
        for held in self.allotments.iter_mut().filter(|held| now < held.end && held.left > 0) {
            let taken = held.left.min(units);
            held.left -= taken;
            units -= taken;
            mark.get_or_insert_with(|| terms.mark(&held.draw));
            if units == 0 {
                break;
            }
        }
        mark.unwrap_or_default()
    }

    /// `None` before the first draw.
    fn decision(&self, now: Timestamp, cost: u64, charged: u64, mark: u64) -> Option<Outcome> {
        let last = self.last.as_ref()?;
        let step = Step { allowed: true, cost, charged, changed: charged > 0 };
        let fields = Fields { mark, ..self.fields(last, now) };
        Some(Outcome::of_fields(step, last.store_time(now), fields).with_source(Source::Lease))
    }

    /// The fields as the store last reported them, plus the allotments.
    fn fields(&self, last: &Last, now: Timestamp) -> Fields {
        let reported = last.reported;
        let remaining = reported.remaining.saturating_add(self.left(now)).min(reported.limit);
        Fields { remaining, used: reported.limit - remaining, retry_at: None, ..reported }
    }
}

impl Last {
    /// The store's time at a time of the node, or a little later.
    fn store_time(&self, now: Timestamp) -> Timestamp {
        self.answer.now() + now.since(self.sent)
    }
}
