//! The units that a local fallback admitted while the store did not answer. They are *owed* to the
//! store, and are charged to it when it answers again. Otherwise each outage would admit a share of
//! the limit once more.
//!
//! Owed units expire as they would in the store, so a key owes only the units that the limit would
//! still count. They are charged before the next call about their key. A task charges the units of
//! keys for which there is no further call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::asking::{LimiterParts, Terms};
use super::guard::Health;
use super::{Ask, Guard, SharedStore};
use crate::algorithm::{AnyMachine, AnyState, Op};
use crate::error::{Error, ErrorKind};
use crate::key::{Key, KeyRef, OwnedKey};
use crate::keyed::lock;
use crate::outcome::{Outcome, Receipt};
use crate::time::Timestamp;

/// The largest number of keys of one limiter that may owe units. The units of additional keys are
/// never charged.
const MAX_KEYS: usize = 100_000;

/// The interval in which the task tries to charge owed units.
const ROUND: Duration = Duration::from_millis(100);

/// The units that the keys of a limiter owe to the store, shared by its clones.
#[derive(Debug)]
pub(crate) struct Owed {
    machines: Box<[AnyMachine]>,
    keys: Mutex<HashMap<OwnedKey, Box<[Option<AnyState>]>>>,
    /// The number of keys in the map.
    count: AtomicUsize,
    has_task: AtomicBool,
}

impl Owed {
    pub(super) fn new(machines: &[AnyMachine]) -> Arc<Owed> {
        Arc::new(Owed {
            machines: machines.into(),
            keys: Mutex::default(),
            count: AtomicUsize::new(0),
            has_task: AtomicBool::new(false),
        })
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Runs `change` on the states of all keys.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut HashMap<OwnedKey, Box<[Option<AnyState>]>>) -> T,
    ) -> T {
        let mut keys = lock(&self.keys);
        let result = change(&mut keys);
        self.count.store(keys.len(), Ordering::Relaxed);
        result
    }

    /// Adds to the units that a key owes for each limit.
    fn add(&self, key: KeyRef<'_>, now: Timestamp, units: &[u64]) {
        if units.iter().all(|units| *units == 0) {
            return;
        }
        let key = OwnedKey::new(&key);
        self.change(|keys| {
            if keys.len() >= MAX_KEYS && !keys.contains_key(&key) {
                return;
            }
            let none = || self.machines.iter().map(|_| None).collect();
            let states = keys.entry(key).or_insert_with(none);
            for ((machine, state), units) in self.machines.iter().zip(states).zip(units) {
                if *units > 0 {
                    let _ = machine.apply(state, now, Op::Charge(*units));
                }
            }
        });
    }

    /// Removes a key, and returns the units that it still owes for each limit.
    fn take(&self, key: KeyRef<'_>, now: Timestamp) -> Option<Vec<u64>> {
        let mut states = self.change(|keys| keys.remove(&OwnedKey::new(&key)))?;
        let used = |(machine, state): (&AnyMachine, &mut Option<AnyState>)| {
            machine.apply(state, now, Op::Peek(0)).used()
        };
        let units: Vec<u64> = self.machines.iter().zip(&mut states).map(used).collect();
        units.iter().any(|units| *units > 0).then_some(units)
    }

    /// Reduces the owed units by a refund. Units that the store was already charged for stay
    /// charged.
    pub(super) fn refund(&self, key: KeyRef<'_>, now: Timestamp, receipts: &[(usize, Receipt)]) {
        if self.is_empty() {
            return;
        }
        self.change(|keys| {
            let Some(states) = keys.get_mut(&OwnedKey::new(&key)) else { return };
            for (limit, receipt) in receipts {
                let (machine, state) = (&self.machines[*limit], &mut states[*limit]);
                let _ = machine.apply(state, now, Op::RefundUnits(receipt.units));
            }
        });
    }

    pub(super) fn forget(&self, key: KeyRef<'_>) {
        if !self.is_empty() {
            self.change(|keys| keys.remove(&OwnedKey::new(&key)));
        }
    }

    pub(super) fn clear(&self) {
        self.change(HashMap::clear);
    }

    /// Returns whether the caller must start the task.
    fn wants_task(&self) -> bool {
        self.change(|keys| !keys.is_empty() && !self.has_task.swap(true, Ordering::AcqRel))
    }

    /// Returns whether the task may end. This is decided under the lock, so that units added later
    /// start another task.
    fn ends_task(&self) -> bool {
        self.change(|keys| {
            self.has_task.store(!keys.is_empty(), Ordering::Release);
            keys.is_empty()
        })
    }

    fn keys(&self) -> Vec<OwnedKey> {
        lock(&self.keys).keys().cloned().collect()
    }
}

/// Units that are being charged to the store. They are owed again if the charge fails or the caller
/// is dropped.
struct Taken<'a> {
    owed: &'a Owed,
    guard: &'a Guard,
    key: OwnedKey,
    units: Vec<u64>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.owed.add(self.key.as_key_ref(), self.guard.now(), &self.units);
    }
}

/// The marker that the task exists. When it is dropped, another task can be started.
struct Task(Arc<Owed>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.has_task.store(false, Ordering::Release);
    }
}

impl<S: SharedStore> LimiterParts<S> {
    /// Notes the units that the fallback charged instead of the store. If the caller passed the
    /// time of the call, no units are noted, because their time cannot be compared with that of
    /// later calls.
    pub(super) fn owe(&self, terms: Terms, key: KeyRef<'_>, decisions: &[Outcome]) {
        let Some(owed) = &self.owed else { return };
        let (None, Some(first)) = (terms.at, decisions.first()) else { return };
        let units: Vec<u64> = decisions.iter().map(Outcome::charged).collect();
        owed.add(key, first.now(), &units);
        if owed.wants_task() {
            let task = Task(Arc::clone(owed));
            let limits = self.clone();
            let settle = async move { limits.settle_all(&task).await };
            self.store.guard().runtime().spawn(Box::pin(settle));
        }
    }

    /// Charges the units that a key owes to the store, before the caller asks the store about that
    /// key. Returns the terms of the caller's call, for which less time is left, or the error if
    /// the store does not answer.
    pub(super) async fn settle<K: Key>(&self, terms: Terms, key: &K) -> Result<Terms, Error> {
        let Some(owed) = self.owed.as_ref().filter(|owed| !owed.is_empty()) else {
            return Ok(terms);
        };
        let guard = self.store.guard();
        let lane = key.with_key(|key| self.lane(key));
        let health = guard.health(lane);
        if terms.at.is_some() || health == Health::Open {
            return Ok(terms);
        }
        let begun = guard.now();
        let left = || terms.deadline.saturating_sub(guard.now().since(begun));
        let Some(units) = key.with_key(|key| owed.take(key, begun)) else { return Ok(terms) };
        let mut taken = Taken { owed, guard, key: OwnedKey::new(key), units };
        if health == Health::Unknown {
            // One unit is charged first. If the answer is lost, only that unit may be charged
            // twice.
            let one: Vec<u64> = taken.units.iter().map(|units| (*units).min(1)).collect();
            let probe = self.charge_each(lane, terms.deadline, key, &one).await;
            if let Some(error) = probe.err().filter(|error| error.kind() != ErrorKind::Store) {
                return Err(error);
            }
            taken.units.iter_mut().for_each(|units| *units = units.saturating_sub(1));
        }
        let units = std::mem::take(&mut taken.units);
        if units.iter().all(|units| *units == 0) {
            return Ok(Terms { deadline: left(), ..terms });
        }
        match self.charge_each(lane, left(), key, &units).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                taken.units = units;
                return Err(error);
            }
            // The units may have been charged, so they are never sent a second time.
            Err(error) => {
                tracing::debug!(%error, "units admitted by the local fallback may not have been charged to the store");
            }
            Ok(_) => {}
        }
        Ok(Terms { deadline: left(), ..terms })
    }

    async fn charge_each<K: Key>(
        &self,
        lane: usize,
        deadline: Duration,
        key: &K,
        units: &[u64],
    ) -> Result<Vec<Outcome>, Error> {
        let charges = self.prepared.iter().zip(units).filter(|(_, units)| **units > 0);
        let begin = |deadline| {
            key.with_key(|key| {
                let ask =
                    |(prepared, units): (_, &u64)| Ask { prepared, key, op: Op::Charge(*units) };
                let asks: Vec<_> = charges.map(ask).collect();
                self.store.ask_each(&asks, None, deadline)
            })
        };
        self.store.guard().call(lane, deadline, begin).await
    }

    /// Charges the units that all keys owe to the store, when it answers again.
    async fn settle_all(&self, Task(owed): &Task) {
        while !owed.ends_task() {
            self.store.guard().runtime().sleep(ROUND).await;
            for key in owed.keys() {
                if let Err(error) = self.settle(self.terms(), &key).await {
                    tracing::debug!(%error, "units admitted by the local fallback are not charged to the store yet");
                }
            }
        }
    }
}
