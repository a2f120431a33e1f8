//! What a node has in hand of one key: pure functions of what is asked, what the store answered,
//! and the node's own time.

use std::collections::VecDeque;

use tollgate::algorithm::{Fields, Step};
use tollgate::{Outcome, Receipt, Source, Timestamp};

use super::terms::Terms;

/// What part of the allotments is left when the next one is fetched.
const LOW: u64 = 4;

/// A store that has nothing is asked again after this part of the life of an allotment: what flows
/// back meanwhile is drawn at once.
const PACE: u32 = 8;

/// Units that one draw got and that may be spent until it ends.
#[derive(Debug)]
struct Allotment {
    granted: u64,
    left: u64,
    sent: Timestamp,
    end: Timestamp,
    /// What the store charged. Its `at` is the store's time.
    draw: Receipt,
}

/// Units that will never be spent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unspent {
    pub(crate) units: u64,
    /// What the store charged for them and those that were spent.
    pub(crate) draw: Receipt,
    /// The store's time, or a little later.
    pub(crate) now: Timestamp,
}

/// What a node has in hand of one key. Times are those of the node, unless said otherwise.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    /// The one that ends first is spent first. Never more than a few.
    allotments: VecDeque<Allotment>,
    /// What the last draw was answered, and when it was sent.
    last: Option<Last>,
    /// Units that the next draw asks for, by what was spent of the last ones.
    size: u64,
    /// Whether a draw is under way.
    pub(crate) drawing: bool,
    /// Whether something was spent since the last time somebody looked.
    pub(crate) used: bool,
}

#[derive(Debug)]
struct Last {
    answer: Outcome,
    /// Of the answer, when it was given.
    told: Fields,
    sent: Timestamp,
    /// Until when the store is not asked again: it had less than was wanted.
    pause: Option<Timestamp>,
}

impl Holding {
    /// Units that may be spent now.
    pub(crate) fn left(&self, now: Timestamp) -> u64 {
        self.allotments.iter().filter(|held| now < held.end).map(|held| held.left).sum()
    }

    /// Spends `cost` units, or refuses while the store is known to have nothing; true with it when
    /// more is to be fetched. `None`: the store has to be asked.
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

    /// What a hit would get, if that is known here.
    pub(crate) fn peek(&self, now: Timestamp, cost: u64) -> Option<Outcome> {
        if self.left(now) < cost { None } else { self.decision(now, cost, 0, 0) }
    }

    /// Spends up to `most` units; how many there were is what it charged.
    pub(crate) fn take(&mut self, terms: &Terms, now: Timestamp, most: u64) -> Option<Outcome> {
        let units = self.left(now).min(most);
        if units == 0 {
            return None;
        }
        let mark = self.spend(terms, now, units);
        self.decision(now, most, units, mark)
    }

    /// The refusal that holds now, if the store has lately had less than this.
    pub(crate) fn refusal(&self, now: Timestamp, cost: u64) -> Option<Outcome> {
        let last = self.last.as_ref()?;
        let pause = last.pause.filter(|pause| now < *pause)?;
        let at = last.store_time(now);
        // Nobody need come before the store is asked again.
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

    /// Units to draw when `needed` more are waited for: as many as are spent in half the life of an
    /// allotment, as long as that is a fair part of the rest.
    pub(crate) fn want(&self, nodes: u64, needed: u64) -> u64 {
        let fair = self.last.as_ref().map_or(1, |last| last.told.remaining / (2 * nodes));
        self.size.min(fair).max(needed).max(1)
    }

    /// What a draw of `want` units brought, sent at `sent`; `left` of it is still there. What has
    /// ended meanwhile, or came too late to be spent, is returned as by
    /// [`surrender`](Holding::surrender).
    pub(crate) fn drawn(
        &mut self,
        terms: &Terms,
        (sent, now): (Timestamp, Timestamp),
        (want, left): (u64, u64),
        answer: Outcome,
    ) -> Vec<Unspent> {
        let draw = answer.receipt();
        let told = answer.fields();
        let nothing_left = draw.units < want && told.remaining == 0;
        let pause = nothing_left.then(|| {
            let wait = answer.retry_after().unwrap_or(terms.life);
            sent + wait.max(terms.life / PACE).min(terms.life)
        });
        self.grow(terms, now);
        self.used = true;
        self.last = Some(Last { answer, told, sent, pause });
        if left > 0 {
            let end = terms.end(sent, &draw);
            let at = self.allotments.partition_point(|held| held.end <= end);
            self.allotments.insert(at, Allotment { granted: left, left, sent, end, draw });
        }
        self.surrender(now, false)
    }

    /// Puts units back that were spent from a living allotment with that mark; `None` if there is
    /// none any more.
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

    /// Takes out what has ended, or all of it.
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

    /// Nothing in hand, nothing under way, nothing to remember.
    pub(crate) fn is_idle(&self, now: Timestamp) -> bool {
        let pausing =
            self.last.as_ref().and_then(|last| last.pause).is_some_and(|pause| now < pause);
        self.allotments.is_empty() && !self.drawing && !pausing && !self.used
    }

    /// Forgets what was drawn: it belongs to a count that somebody has put anew.
    pub(crate) fn forget(&mut self) {
        let drawing = self.drawing;
        *self = Holding { drawing, ..Holding::default() };
    }

    /// A draw within half the life of the one before it, which was answered in full, makes the next
    /// larger.
    fn grow(&mut self, terms: &Terms, now: Timestamp) {
        let Some(last) = &self.last else { return };
        if last.pause.is_none() && now.since(last.sent) < terms.life / 2 {
            self.size = self.size.max(1).saturating_mul(2);
        }
    }

    /// Whether the next allotment is to be fetched: a quarter is left, it will not last, and the
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
            && last.told.remaining > 0
    }

    /// Takes units from the allotments that end first. They are there. Returns what tells the first
    /// of them.
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

    /// As the store last said, with what is in hand not yet used.
    fn fields(&self, last: &Last, now: Timestamp) -> Fields {
        let told = last.told;
        let remaining = told.remaining.saturating_add(self.left(now)).min(told.limit);
        Fields { remaining, used: told.limit - remaining, retry_at: None, ..told }
    }
}

impl Last {
    /// The store's time at a time of the node, or a little later.
    fn store_time(&self, now: Timestamp) -> Timestamp {
        self.answer.now() + now.since(self.sent)
    }
}
