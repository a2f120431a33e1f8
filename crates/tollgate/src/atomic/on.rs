//! The operations of one machine on one table: a hit, and the cleaning that follows it.

use std::sync::atomic::Ordering;

use super::pack::{Pack, fit};
use super::sync::{PinnedEra, pin, pin_quickly};
use super::table::{Fate, Full, Move, Next};
use super::word::Word;
use super::{Inner, Kept};
use crate::algorithm::{Act, Hit, KnownAct, Op, Step};
use crate::clock::Clock;
use crate::outcome::{Outcome, Source};
use crate::time::Timestamp;

impl<W: Word> Kept<W> {
    /// Returns whether cleaning is due, or will be due within `early`. It returns true to only one
    /// caller, and then cleaning is due again after `period`.
    fn is_clean_due(&self, now: Timestamp, early: u64, period: u64) -> bool {
        let next = now.plus(period).as_micros();
        let is_due = |due| (now.plus(early).as_micros() >= due).then_some(next);
        self.clean_due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_ok()
    }
}

/// A machine, the table and packing of its limit, and the time of a call.
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

    /// Returns whether a word may be removed: its state must be fresh by the caller's time and by
    /// the store's own clock.
    pub(super) fn fate(&self, word: W) -> Fate {
        self.fate_after(0, word)
    }

    /// Does the same as [`fate`](On::fate), but keeps a state that has expired only recently. The
    /// next hit of its key then finds the slot and reuses it. Without this, a limit such as 1000
    /// per second, whose keys are fresh again after a millisecond, would claim a new slot for
    /// nearly every hit.
    fn fate_in_use(&self, word: W) -> Fate {
        let grace = if self.store.shared.is_crowded() { 0 } else { self.store.grace() };
        self.fate_after(grace, word)
    }

    /// Returns the fate of a state that may be removed after it has been fresh for `grace`
    /// microseconds.
    fn fate_after(&self, grace: u64, word: W) -> Fate {
        let fresh_at = self.state(word).map_or(Timestamp::EPOCH, |s| self.machine.fresh_at(&s));
        let goes_at = fresh_at.plus(grace);
        if goes_at <= self.now && goes_at <= self.store.clock.now() {
            Fate::FreshSince(fresh_at.as_micros())
        } else {
            Fate::Stays
        }
    }

    /// Executes one step on one word. A key without a state starts no earlier than the floor of the
    /// table.
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
            // A denied hit also counts as use, so its key is not forgotten because of its age.
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

    /// Hits a key if that takes only one attempt and no maintenance is due. Otherwise returns
    /// `None` and changes nothing.
    #[inline(always)]
    pub(super) fn try_hit(&self, fingerprint: u64, cost: u64) -> Option<Outcome> {
        if self.is_maintenance_due() {
            return None;
        }
        let guard = pin_quickly()?;
        self.try_once(&guard, fingerprint, Hit(cost))
    }

    /// Makes one attempt to act on the word of a key. `None` if the attempt fails. There is no
    /// loop, because a loop would keep values in registers and slow down every hit.
    #[inline(always)]
    fn try_once(&self, guard: &PinnedEra, fingerprint: u64, act: impl KnownAct) -> Option<Outcome> {
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

    /// Acts on a key until that succeeds. It is needed for a key without a slot, during a move to
    /// another generation, and if another thread has changed the word.
    fn act_surely(&self, guard: &PinnedEra, fingerprint: u64, act: Act) -> Outcome {
        loop {
            let mut step = |word| self.step(word, act);
            match self.kept.table.update(guard, fingerprint, &|w| self.fate_in_use(w), &mut step) {
                Ok(done) => return self.decision(done),
                // There is no slot to clear, and the overflow word belongs to other keys too.
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

    /// Decides on the state that keys without a slot share. `None` if the key got a slot meanwhile.
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
            // The thread that claimed the slot may have read this state before it was charged. So
            // the charge is undone, and the caller acts on the slot.
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

    /// Begins a move that forgets expired states, to make room for new keys. It is done at most
    /// about 16 times per clean period, because an attacker may send many hits with new keys.
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

    /// Does one small step of maintenance: frees memory, or continues to clean a table that gets no
    /// hits, or begins a move of this table. Maintenance stays due as long as there is more to do.
    fn maintain(&self) {
        if self.store.shared.free_some() {
            return;
        }
        // A caller may pass a time far in the future.
        let now = self.now.min(self.store.clock.now());
        if self.kept.is_clean_due(now, 0, self.store.clean_period) {
            self.begin_move_if_due();
        }
        let Some(more) = self.store.round_step(now) else { return };
        let clean_due = self.kept.clean_due.load(Ordering::Relaxed);
        self.kept.table.due.store(if more { 0 } else { clean_due }, Ordering::Relaxed);
    }

    /// Begins a move to the next generation if enough slots can be removed or ages must be checked.
    /// Returns whether it began one.
    fn begin_move_if_due(&self) -> bool {
        let mode = self.move_due();
        let begins = mode == Move::Age || self.kept.table.wants_tidying(&|w| self.fate_in_use(w));
        if begins {
            self.kept.table.begin_move(mode, &|w| self.fate_in_use(w));
        }
        begins
    }

    /// Does one step of cleaning for a table that gets no hits: continues a move, or begins one.
    /// Returns false if there is nothing more to do.
    pub(super) fn clean_a_little(&self) -> bool {
        self.kept.table.move_some(&|w| self.fate_in_use(w))
            || self.kept.is_clean_due(self.now, 0, self.store.clean_period)
                && self.begin_move_if_due()
    }

    /// Returns the purpose of the next move. Ages are checked once per `key_older_than`.
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
        // The size of the new table was chosen for all claimed slots. After the move the number of
        // states is known exactly, so the table may shrink.
        if self.kept.table.wants_tidying(&fate) {
            return gone + self.kept.table.move_all(Move::Tidy, &fate);
        }
        gone
    }
}

/// Executes a hit, or any other act, on one table with one machine. It is not inlined, so that the
/// compiler allocates registers for each combination separately. Rare paths are separate functions
/// whose arguments fit registers. Otherwise every hit would have to write them to the stack.
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
    guard: &PinnedEra,
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
