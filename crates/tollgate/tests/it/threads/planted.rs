//! Stores with a planted race. Every check must detect its race, otherwise the check proves
//! nothing. The same store without a race must pass the check.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate::algorithm::{AnyMachine, AnyState, Op, hit_together};
use tollgate::store::HitItem;
use tollgate::{Error, KeyRef, Limit, Outcome, Store, Timestamp};

use super::{Checked, checks, churn, groups, holds};
use crate::stores::{AnyClock, Settings, Subject};

/// The variant without a race: each step holds a lock.
const EXACT: u8 = 0;
/// The variant whose hits race: a hit reads, decides and writes without a lock, so another hit may
/// run in between.
const RACY_HITS: u8 = 1;
/// The variant whose cleaner races: it first finds expired keys and then removes them, although
/// they may have been hit meanwhile.
const RACY_CLEANER: u8 = 2;

#[derive(Clone, Debug)]
struct Planted<const RACE: u8> {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: AnyClock,
    /// The lock that a store without a race holds during a whole step.
    whole_step: Mutex<()>,
    states: Mutex<HashMap<Place, (AnyMachine, AnyState)>>,
    /// The latest time at which a forgotten state became fresh. A caller that has read the clock
    /// before that time starts at this time.
    floor: Mutex<Timestamp>,
    hits: AtomicUsize,
}

type Place = (String, Vec<u8>);

#[derive(Clone, Debug)]
struct Prepared {
    identity: String,
    machine: AnyMachine,
}

impl Prepared {
    fn place(&self, key: KeyRef<'_>) -> Place {
        (self.identity.clone(), key.bytes().to_vec())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<const RACE: u8> Planted<RACE> {
    fn step(&self) -> Option<MutexGuard<'_, ()>> {
        (RACE != RACY_HITS).then(|| lock(&self.inner.whole_step))
    }

    fn look(&self, place: &Place) -> Option<AnyState> {
        let state = lock(&self.inner.states).get(place).map(|(_, state)| state.clone());
        if RACE == RACY_HITS {
            // Another caller may run here.
            std::thread::yield_now();
        }
        state
    }

    fn put(&self, prepared: &Prepared, place: Place, state: Option<AnyState>) {
        let mut states = lock(&self.inner.states);
        match state {
            Some(state) => drop(states.insert(place, (prepared.machine, state))),
            None => drop(states.remove(&place)),
        }
    }

    /// Waits until other threads have made some hits, or until they have probably ended.
    fn let_others_hit(&self) {
        let before = self.inner.hits.load(Ordering::Relaxed);
        for _ in 0..100 {
            std::thread::yield_now();
            if self.inner.hits.load(Ordering::Relaxed) > before + 20 {
                return;
            }
        }
    }

    fn remove(&self, stale: &[(Place, Timestamp)]) -> usize {
        let mut states = lock(&self.inner.states);
        let mut floor = lock(&self.inner.floor);
        let remove = |(place, fresh_at): &&(Place, Timestamp)| {
            *floor = floor.max(*fresh_at);
            states.remove(place).is_some()
        };
        stale.iter().filter(remove).count()
    }

    fn change(
        &self,
        prepared: &Prepared,
        key: KeyRef<'_>,
        now: Timestamp,
        f: impl FnOnce(&AnyMachine, &mut Option<AnyState>, Timestamp) -> Outcome,
    ) -> Outcome {
        let place = prepared.place(key);
        let mut state = self.look(&place);
        let start = if state.is_some() { now } else { now.max(*lock(&self.inner.floor)) };
        let before = state.clone();
        let decision = f(&prepared.machine, &mut state, start);
        if state != before {
            self.put(prepared, place, state);
        }
        decision
    }
}

impl<const RACE: u8> Store for Planted<RACE> {
    type Prepared = Prepared;

    fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        let identity = format!("{namespace:?} {}", limit.identity());
        Ok(Prepared { identity, machine: AnyMachine::new(limit) })
    }

    fn apply(&self, prepared: &Prepared, key: KeyRef<'_>, now: Timestamp, op: Op) -> Outcome {
        self.inner.hits.fetch_add(1, Ordering::Relaxed);
        let _whole = self.step();
        self.change(prepared, key, now, |machine, state, now| machine.apply(state, now, op))
    }

    fn hit_together(&self, items: &[HitItem<'_, Prepared>], now: Timestamp) -> Vec<Outcome> {
        let _whole = self.step();
        let parts = items.iter().map(|item| item.prepared.machine.part(item.cost));
        let Ok(outcomes): Result<_, Infallible> = hit_together(parts, |item, act| {
            let HitItem { prepared, key, .. } = items[item];
            Ok(self.change(prepared, key, now, |machine, state, now| machine.act(state, now, act)))
        });
        outcomes
    }

    fn clear(&self, prepared: &Prepared) {
        let _whole = self.step();
        lock(&self.inner.states).retain(|(identity, _), _| *identity != prepared.identity);
    }

    fn same_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl<const RACE: u8> Subject for Planted<RACE> {
    const COUNTS: u64 = u64::MAX;

    /// Builds a store without a bound on keys, which is cleaned only by `sweep`.
    fn build(settings: Settings) -> Self {
        let inner = Inner {
            clock: settings.clock,
            whole_step: Mutex::default(),
            states: Mutex::default(),
            floor: Mutex::default(),
            hits: AtomicUsize::new(0),
        };
        Planted { inner: Arc::new(inner) }
    }

    fn sweep(&self) -> usize {
        let whole = self.step();
        let now = self.now();
        let stale: Vec<(Place, Timestamp)> = lock(&self.inner.states)
            .iter()
            .filter_map(|(place, (machine, state))| {
                let fresh_at = machine.fresh_at(Some(state)).filter(|at| *at <= now)?;
                Some((place.clone(), fresh_at))
            })
            .collect();
        if RACE != EXACT {
            drop(whole);
            self.let_others_hit();
            let _whole = self.step();
            return self.remove(&stale);
        }
        self.remove(&stale)
    }

    fn known_limits(&self) -> usize {
        lock(&self.inner.states).keys().map(|place| &place.0).collect::<HashSet<_>>().len()
    }

    fn entries(&self) -> usize {
        lock(&self.inner.states).len()
    }

    fn hits_at_the_bound(&self) -> usize {
        0
    }

    fn forget_namespace(&self, namespace: &str) {
        let prefix = format!("{namespace:?} ");
        lock(&self.inner.states).retain(|(identity, _), _| !identity.starts_with(&prefix));
    }
}

type Exact = Planted<EXACT>;
type Racy = Planted<RACY_HITS>;
type RacyCleaner = Planted<RACY_CLEANER>;

/// Asserts that a check passes without a race, and detects the planted race.
fn assert_detects_the_race(exact: Checked, racy: Checked) {
    holds(exact);
    racy.expect_err("the check did not detect the planted race");
}

#[test]
fn a_race_on_one_key_is_detected() {
    assert_detects_the_race(
        checks::one_key_admits_exactly_the_limit::<Exact>(),
        checks::one_key_admits_exactly_the_limit::<Racy>(),
    );
}

#[test]
fn a_race_on_fresh_keys_is_detected() {
    assert_detects_the_race(
        checks::a_fresh_key_with_a_limit_of_one_admits_exactly_one_hit::<Exact>(),
        checks::a_fresh_key_with_a_limit_of_one_admits_exactly_one_hit::<Racy>(),
    );
}

#[test]
fn a_race_of_refunds_is_detected() {
    assert_detects_the_race(
        checks::the_usage_is_exact_after_concurrent_hits_and_refunds::<Exact>(),
        checks::the_usage_is_exact_after_concurrent_hits_and_refunds::<Racy>(),
    );
}

#[test]
fn a_race_of_takes_is_detected() {
    assert_detects_the_race(
        checks::takes_get_exactly_the_limit_in_total::<Exact>(),
        checks::takes_get_exactly_the_limit_in_total::<Racy>(),
    );
}

#[test]
fn a_race_of_policies_is_detected() {
    assert_detects_the_race(
        groups::policies_never_exceed_any_of_their_limits::<Exact>(),
        groups::policies_never_exceed_any_of_their_limits::<Racy>(),
    );
}

#[test]
fn a_race_of_hits_on_several_keys_is_detected() {
    assert_detects_the_race(
        groups::groups_in_different_orders_never_exceed_a_limit::<Exact>(),
        groups::groups_in_different_orders_never_exceed_a_limit::<Racy>(),
    );
}

#[test]
fn a_lost_hit_during_cleaning_is_detected() {
    assert_detects_the_race(
        churn::no_hit_is_lost_while_a_thread_cleans::<Exact>(),
        churn::no_hit_is_lost_while_a_thread_cleans::<Racy>(),
    );
}

#[test]
fn a_cleaner_that_removes_keys_in_use_is_detected() {
    fn check<S: Subject>() -> Checked {
        let (settings, advance) = churn::with_manual_clock();
        churn::windows_admit_at_most_the_limit::<S>(settings, 1, advance)
    }
    assert_detects_the_race(check::<Exact>(), check::<RacyCleaner>());
}
