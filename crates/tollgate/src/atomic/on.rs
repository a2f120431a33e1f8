//! One machine on one table: a hit, and the housekeeping that follows it.

use std::sync::atomic::Ordering;

use super::pack::{Pack, fit};
use super::sync::{Guard, pin, pin_quickly};
use super::table::{Fate, Full, Move, Next};
use super::word::Word;
use super::{Inner, Kept};
use crate::algorithm::{Act, Hit, KnownAct, Op, Step};
use crate::clock::Clock;
use crate::outcome::{Outcome, Source};
use crate::time::Timestamp;

impl<W: Word> Kept<W> {
    /// Whether cleaning is due, or will be in less than `early`; to one caller, after which it is
    /// due in a `period`.
    fn is_clean_due(&self, now: Timestamp, early: u64, period: u64) -> bool {
        let next = now.plus(period).as_micros();
        let is_due = |due| (now.plus(early).as_micros() >= due).then_some(next);
        self.clean_due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_ok()
    }
}

/// One machine on one table.
pub(super) struct On<'a, W: Word, M, C> {
    pub(super) store: &'a Inner<C>,
    pub(super) kept: &'a Kept<W>,
    pub(super) machine: &'a M,
    pub(super) now: Timestamp,
}

impl<'a, W: Word, M: Pack<W>, C: Clock> On<'a, W, M, C> {
    #[inline(always)]
    pub(super) fn new(
        store: &'a Inner<C>,
        kept: &'a Kept<W>,
        machine: &'a M,
        now: Timestamp,
    ) -> Self {
        On { store, kept, machine, now: kept.packing.within(now) }
    }

    #[inline(always)]
    fn state(&self, word: W) -> Option<M::State> {
        word.payload().map(|payload| self.machine.unpack(&self.kept.packing, payload))
    }

    #[inline(always)]
    fn word(&self, state: Option<&M::State>) -> W {
        match state {
            Some(state) => W::present(self.machine.pack(&self.kept.packing, state)).with_used(true),
            None => W::CLEARED,
        }
    }

    /// Judged by the caller's time and never by one ahead of the store's own clock.
    pub(super) fn fate(&self, word: W) -> Fate {
        self.fate_after(0, word)
    }

    /// As [`fate`](On::fate), but a state that ran out a short time ago stays. Its key is likely
    /// to come again, finds its slot and reuses it in place. Without this a limit such as 1000 per
    /// second, whose keys are fresh again after a millisecond, would claim a new slot for nearly
    /// every hit.
    fn fate_in_use(&self, word: W) -> Fate {
        let grace = if self.store.shared.is_crowded() { 0 } else { self.store.grace() };
        self.fate_after(grace, word)
    }

    /// The fate of a state that goes when it has been fresh for `grace` microseconds.
    fn fate_after(&self, grace: u64, word: W) -> Fate {
        let fresh_at = self.state(word).map_or(Timestamp::EPOCH, |s| self.machine.fresh_at(&s));
        let goes_at = fresh_at.plus(grace);
        if goes_at <= self.now && goes_at <= self.store.clock.now() {
            Fate::FreshSince(fresh_at.as_micros())
        } else {
            Fate::Stays
        }
    }

    /// One step on one word. A key without a state starts no earlier than the floor.
    #[inline(always)]
    fn step<A: KnownAct>(&self, word: W, act: A) -> (Next<W>, (Step, Option<M::State>)) {
        let mut state = self.state(word);
        let start = match state {
            Some(_) => self.now,
            None => self.now.max(Timestamp::from_micros(self.kept.table.floor())),
        };
        let before = state.clone();
        let mut step = act.step(self.machine, &mut state, start);
        if step.changed && !A::fits_a_word(step) {
            fit(self.machine, &self.kept.packing, before.as_ref(), &mut state, start, &mut step);
        }
        let next = if step.changed {
            Next::Put(self.word(state.as_ref()))
        } else if self.kept.age_due.is_some() && state.is_some() && !word.is_used() {
            // Refused is used, too: who knocks in vain is not forgotten for that.
            Next::Put(word.with_used(true))
        } else {
            Next::Keep
        };
        (next, (step, state))
    }

    #[inline(always)]
    fn decision(&self, (step, state): (Step, Option<M::State>)) -> Outcome {
        Outcome::new(self.machine, state.as_ref(), self.now, step)
    }

    /// The short way of a hit: nothing if there is anything else to do.
    #[inline(always)]
    pub(super) fn try_hit(&self, fingerprint: u64, cost: u64) -> Option<Outcome> {
        if self.is_maintenance_due() {
            return None;
        }
        let guard = pin_quickly()?;
        self.try_once(&guard, fingerprint, Hit(cost))
    }

    /// One attempt at the word of a key; nothing if that does not settle it. No loop: what a loop
    /// keeps at hand would cost every hit.
    #[inline(always)]
    fn try_once(&self, guard: &Guard, fingerprint: u64, act: impl KnownAct) -> Option<Outcome> {
        let cell = self.kept.table.find(guard, fingerprint)?;
        let word = W::load(cell, Ordering::Acquire);
        if word.is_frozen() || word.payload().is_none() {
            return None;
        }
        let (next, done) = self.step(word, act);
        if let Next::Put(new) = next {
            W::replace(cell, word, new).ok()?;
        }
        Some(self.decision(done))
    }

    /// For a key without a slot, during a move, and when somebody else was faster.
    fn act_surely(&self, guard: &Guard, fingerprint: u64, act: Act) -> Outcome {
        loop {
            let mut step = |word| self.step(word, act);
            match self.kept.table.update(guard, fingerprint, &|w| self.fate_in_use(w), &mut step) {
                Ok(done) => return self.decision(done),
                // There is no slot to clear, and the overflow word belongs to other keys as well.
                Err(Full) if act == Act::Op(Op::Reset) => {
                    return self.decision(self.step(W::VOID, act).1);
                }
                Err(Full) => {
                    if let Some(decision) = self.act_on_overflow(fingerprint, act) {
                        return decision;
                    }
                }
            }
        }
    }

    /// Decides on the state that keys without a slot share; nothing if the key got a slot
    /// meanwhile.
    #[cold]
    fn act_on_overflow(&self, fingerprint: u64, act: Act) -> Option<Outcome> {
        let cell = &self.kept.table.overflow;
        let mut word = W::load(cell, Ordering::SeqCst);
        let done = loop {
            let (next, done) = self.step(word, act);
            let Next::Put(new) = next else { break done };
            match W::replace_in_order(cell, word, new) {
                Ok(()) => break done,
                Err(found) => word = found,
            }
        };
        let decision = self.decision(done);
        if self.kept.table.has_slot(fingerprint, &|w| self.fate_in_use(w)) {
            // Whoever claimed it may have looked here before we charged: take it back and ask the
            // slot.
            self.refund_overflow(&decision);
            return None;
        }
        self.store.overflowed.fetch_add(1, Ordering::Relaxed);
        self.tidy_at_bound();
        Some(decision.with_source(Source::Overflow))
    }

    fn refund_overflow(&self, decision: &Outcome) {
        let cell = &self.kept.table.overflow;
        let mut word = W::load(cell, Ordering::SeqCst);
        while let Next::Put(new) = self.step(word, Act::Op(Op::Refund(decision.receipt()))).0 {
            match W::replace_in_order(cell, word, new) {
                Ok(()) => return,
                Err(found) => word = found,
            }
        }
    }

    /// Room may be had by forgetting; looking for it is not worth it for every hit of an attacker.
    fn tidy_at_bound(&self) {
        let period = self.store.clean_period;
        let now = self.now.min(self.store.clock.now());
        if self.kept.is_clean_due(now, period - period / 16, period) {
            self.begin_move_if_due();
        }
    }

    #[inline(always)]
    fn is_maintenance_due(&self) -> bool {
        self.now.as_micros() >= self.kept.table.due.load(Ordering::Relaxed)
    }

    /// One small step of housekeeping: frees a piece of memory, or goes on with cleaning a table
    /// that nobody hits, or begins a move here. It stays due as long as there is more to do.
    fn maintain(&self) {
        if self.store.shared.free_some() {
            return;
        }
        // A caller may have made up a time far ahead.
        let now = self.now.min(self.store.clock.now());
        if self.kept.is_clean_due(now, 0, self.store.clean_period) {
            self.begin_move_if_due();
        }
        let Some(more) = self.store.round_step(now) else { return };
        let clean_due = self.kept.clean_due.load(Ordering::Relaxed);
        self.kept.table.due.store(if more { 0 } else { clean_due }, Ordering::Relaxed);
    }

    /// Whether a move was begun.
    fn begin_move_if_due(&self) -> bool {
        let mode = self.move_due();
        let begins = mode == Move::Age || self.kept.table.wants_tidying(&|w| self.fate_in_use(w));
        if begins {
            self.kept.table.begin_move(mode, &|w| self.fate_in_use(w));
        }
        begins
    }

    /// A step of cleaning for a table that nobody hits: goes on with a move, or begins one. False
    /// when there is nothing more to do.
    pub(super) fn clean_a_little(&self) -> bool {
        self.kept.table.move_some(&|w| self.fate_in_use(w))
            || self.kept.is_clean_due(self.now, 0, self.store.clean_period)
                && self.begin_move_if_due()
    }

    /// The purpose of the next move. Age is looked at once in `key_older_than`.
    fn move_due(&self) -> Move {
        let (Some(age), Some(age_due)) = (self.store.key_older_than, &self.kept.age_due) else {
            return Move::Tidy;
        };
        let now = self.now.min(self.store.clock.now());
        let is_due = |due| (now.as_micros() >= due).then_some(now.plus(age).as_micros());
        match age_due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due) {
            Ok(_) => Move::Age,
            Err(_) => Move::Tidy,
        }
    }

    pub(super) fn clean(&self) -> usize {
        let fate = |w| self.fate(w);
        let gone = self.kept.table.move_all(self.move_due(), &fate);
        // The first move made room for all that was claimed; now that is known exactly.
        if self.kept.table.wants_tidying(&fate) {
            return gone + self.kept.table.move_all(Move::Tidy, &fate);
        }
        gone
    }
}

/// One hit, or any other act, on one table with one machine. Not inlined: each pair gets its own
/// registers. What is rare is a function of its own that gets all it needs in registers, for what
/// it needs on the stack every hit would have to put there.
#[inline(never)]
pub(super) fn act_on<W: Word, M: Pack<W>, C: Clock>(
    store: &Inner<C>,
    kept: &Kept<W>,
    machine: &M,
    fingerprint: u64,
    now: Timestamp,
    act: impl KnownAct,
) -> Outcome {
    let on = On::new(store, kept, machine, now);
    let guard = pin();
    let decision = match on.try_once(&guard, fingerprint, act) {
        Some(decision) => decision,
        None => act_surely(store, kept, machine, &guard, fingerprint, now, act.act()),
    };
    drop(guard);
    if on.is_maintenance_due() {
        maintain(store, kept, machine, now);
    }
    decision
}

#[cold]
#[inline(never)]
fn act_surely<W: Word, M: Pack<W>, C: Clock>(
    store: &Inner<C>,
    kept: &Kept<W>,
    machine: &M,
    guard: &Guard,
    fingerprint: u64,
    now: Timestamp,
    act: Act,
) -> Outcome {
    On::new(store, kept, machine, now).act_surely(guard, fingerprint, act)
}

#[cold]
#[inline(never)]
fn maintain<W: Word, M: Pack<W>, C: Clock>(
    store: &Inner<C>,
    kept: &Kept<W>,
    machine: &M,
    now: Timestamp,
) {
    On::new(store, kept, machine, now).maintain();
}
