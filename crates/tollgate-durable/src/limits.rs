//! The limits that a store knows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tollgate::algorithm::{AnyMachine, Op, State};
use tollgate::shared::Place;
use tollgate::{Decision, Limit, Source, Timestamp};

use crate::mark::Reserve;

/// Locks, also after a panic elsewhere: what we guard is consistent between any two statements.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A limit in a namespace, shared by all who prepared it and by its keys.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) place: Place,
    /// Stands for the place in the names of records, once there is one.
    number: OnceLock<u32>,
    /// As it was prepared last: a named limit may change its quota.
    latest: Mutex<Rule>,
    overflow: Overflow,
}

/// What a limit says, and what may be reserved for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) machine: AnyMachine,
    pub(crate) reserve: Reserve,
}

impl Rule {
    /// `interval` is that of commits if keys get a reserve.
    pub(crate) fn new(limit: &Limit, interval: Option<Duration>) -> Rule {
        let reserve = interval.map_or(Reserve::NOTHING, |interval| Reserve::of(limit, interval));
        Rule { machine: AnyMachine::new(limit), reserve }
    }
}

impl Known {
    pub(crate) fn latest(&self) -> Rule {
        *lock(&self.latest)
    }

    pub(crate) fn number(&self) -> Option<u32> {
        self.number.get().copied()
    }

    /// The number, asked of `make` if there is none.
    pub(crate) fn number_or(&self, make: impl FnOnce() -> u32) -> u32 {
        *self.number.get_or_init(make)
    }

    pub(crate) fn overflow(&self) -> &Overflow {
        &self.overflow
    }
}

/// The state that keys without an entry share while the store is at its bound. It is never written.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    /// Whether `state` was ever written: spares the lock to all who never meet the bound.
    used: AtomicBool,
    state: Mutex<Option<State>>,
}

impl Overflow {
    pub(crate) fn act(&self, act: impl FnOnce(&mut Option<State>) -> Decision) -> Decision {
        let mut state = lock(&self.state);
        let decision = act(&mut state);
        if state.is_some() {
            self.used.store(true, Ordering::Release);
        }
        decision.with_source(Source::Overflow)
    }

    /// The state that a key starts from which gets an entry now.
    pub(crate) fn copy(&self, machine: &AnyMachine, now: Timestamp) -> Option<State> {
        if !self.used.load(Ordering::Acquire) {
            return None;
        }
        let state = lock(&self.state);
        state.clone().filter(|state| machine.fresh_at(Some(state)).is_some_and(|at| at > now))
    }

    pub(crate) fn clear(&self) {
        *lock(&self.state) = None;
    }

    fn is_fresh(&self, machine: &AnyMachine, now: Timestamp) -> bool {
        machine.fresh_at(lock(&self.state).as_ref()).is_none_or(|at| at <= now)
    }
}

/// One entry for each place, as long as anybody could mean it.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    by_prefix: Mutex<HashMap<Box<[u8]>, Arc<Known>>>,
}

impl Limits {
    /// `number` tells under which one the file knows a place.
    pub(crate) fn entry(
        &self,
        place: Place,
        rule: Rule,
        number: impl FnOnce(&Place) -> Option<u32>,
    ) -> Arc<Known> {
        let mut by_prefix = lock(&self.by_prefix);
        if let Some(known) = by_prefix.get(place.prefix()) {
            *lock(&known.latest) = rule;
            return Arc::clone(known);
        }
        let prefix = place.prefix().into();
        let number = number(&place).map(OnceLock::from).unwrap_or_default();
        let known = Arc::new(Known {
            place,
            number,
            latest: Mutex::new(rule),
            overflow: Overflow::default(),
        });
        by_prefix.insert(prefix, Arc::clone(&known));
        known
    }

    /// The limit with that number in the file, if anybody prepared it.
    pub(crate) fn numbered(&self, number: u32) -> Option<Arc<Known>> {
        let by_prefix = lock(&self.by_prefix);
        by_prefix.values().find(|known| known.number() == Some(number)).map(Arc::clone)
    }

    /// All whose names begin so.
    pub(crate) fn beginning(&self, prefix: &[u8]) -> Vec<Arc<Known>> {
        let by_prefix = lock(&self.by_prefix);
        let begin = by_prefix.iter().filter(|(name, _)| name.starts_with(prefix));
        begin.map(|(_, known)| Arc::clone(known)).collect()
    }

    /// Forgets limits that nobody holds: no limiter, no key.
    pub(crate) fn forget(&self, now: Timestamp) {
        lock(&self.by_prefix).retain(|_, known| {
            Arc::strong_count(known) > 1 || !known.overflow.is_fresh(&known.latest().machine, now)
        });
    }
}

/// What one call does to a state: an operation, or the part of one limit in a hit that another one refuses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Op(Op),
    Refuse(u64),
}

impl Act {
    #[inline]
    pub(crate) fn on(
        self,
        machine: &AnyMachine,
        state: &mut Option<State>,
        now: Timestamp,
    ) -> Decision {
        match self {
            Act::Op(op) => machine.apply(state, now, op),
            Act::Refuse(cost) => machine.refuse(state, now, cost),
        }
    }
}
