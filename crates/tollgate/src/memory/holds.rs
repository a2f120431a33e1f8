//! Holds in [`Memory`]: the record and the states of a hold are changed under the locks of both.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::shard::{Lookup, Shard};
use super::{Inner, Memory, Prepared};
use crate::algorithm::{Act, AnyMachine, AnyState, Fields, Op, Step};
use crate::clock::Clock;
use crate::error::Error;
use crate::hold::{
    HoldCall, HoldId, HoldItemReply, HoldPart, HoldRecord, HoldReply, HoldStatus, decide,
};
use crate::keyed::lock;
use crate::outcome::{Outcome, Source};
use crate::time::Timestamp;

/// The state of one part, taken out of its shard.
struct Taken {
    prepared: Prepared,
    /// The index into the locked shards.
    shard: usize,
    hash: u64,
    /// Whether the key has an entry.
    known: bool,
    /// The overflow state from which a key without an entry starts.
    copy: Option<AnyState>,
}

impl<C: Clock + 'static> Memory<C> {
    /// Returns the number of open holds.
    ///
    /// ```
    /// let store = tollgate::Memory::new();
    /// assert_eq!(store.open_holds(), 0);
    /// ```
    #[must_use]
    pub fn open_holds(&self) -> usize {
        self.inner.holds.open()
    }

    pub(super) fn hold_now(
        &self,
        namespace: &str,
        id: &HoldId,
        call: &HoldCall,
        now: Timestamp,
    ) -> Result<HoldReply, Error> {
        call.check()?;
        let inner = &*self.inner;
        let room = matches!(call, HoldCall::Reserve { .. }).then(|| inner.holds.room(now));
        let (room, full) = match room {
            Some(Ok(room)) => (Some(room), None),
            Some(Err(full)) => (None, Some(full)),
            None => (None, None),
        };
        let reply = inner.holds.with(namespace, id, now, room, |record| {
            let is_new = record.as_ref().is_none_or(|record| record.forget_at() <= now);
            match full {
                Some(full) if is_new => Err(full),
                _ => inner.decide_hold(namespace, id, call, record, now),
            }
        });
        inner.clean_if_due(now);
        reply
    }
}

impl<C: Clock> Inner<C> {
    /// Decides a call whose record is locked.
    fn decide_hold(
        &self,
        namespace: &str,
        id: &HoldId,
        call: &HoldCall,
        record: &mut Option<HoldRecord>,
        now: Timestamp,
    ) -> Result<HoldReply, Error> {
        record.take_if(|record| record.forget_at() <= now);
        // The parts borrow the record, which the decision changes.
        let before = record.clone();
        let parts = call.parts(before.as_ref());
        let mut indices = Vec::with_capacity(parts.len());
        let mut taken = Vec::with_capacity(parts.len());
        for part in &parts {
            let hash = part.key.with_compact(|key| key.hash(&self.hasher));
            let prepared = self.prepared_for_hold(namespace, part)?;
            let shard = self.shard_index(hash ^ prepared.known.spread);
            indices.push(shard);
            taken.push(Taken { prepared, shard, hash, known: false, copy: None });
        }
        indices.sort_unstable();
        indices.dedup();
        let mut shards: Vec<_> = indices.iter().map(|index| lock(&self.shards[*index].0)).collect();
        for taken in &mut taken {
            taken.shard = indices.binary_search(&taken.shard).unwrap_or_default();
        }
        let mut states = Vec::with_capacity(parts.len());
        for (part, taken) in parts.iter().zip(&mut taken) {
            let state = part.key.with_compact(|key| {
                shards[taken.shard].take_state(taken.prepared.lookup(taken.hash, key))
            });
            taken.known = state.is_some();
            states.push(state);
        }
        // A key that was forgotten does not start before the time at which it became fresh.
        let floor = |taken: &Taken| shards[taken.shard].floor;
        let now = taken.iter().filter(|taken| !taken.known).map(floor).fold(now, Timestamp::max);
        for (taken, state) in taken.iter_mut().zip(&mut states).filter(|(taken, _)| !taken.known) {
            *state = taken.prepared.known.overflow.copy(&taken.prepared.machine, now);
            taken.copy.clone_from(state);
        }
        let new = taken.iter().filter(|taken| !taken.known).count();
        let is_reserve = matches!(call, HoldCall::Reserve { .. });
        let counted = (0..new).take_while(|_| self.count.take()).count();
        let result = if counted < new && is_reserve && record.is_none() {
            Ok(denied_by_overflow(call, &taken, &mut states, now))
        } else {
            // Calls on an open hold may exceed the bound on keys by the parts of open holds, whose
            // number is bounded too.
            self.count.keys.fetch_add(new - counted, Ordering::Relaxed);
            decide(id, call, record, &mut states, now, &self.hold_terms)
        };
        let mut unused = if record.is_none() && counted < new { counted } else { new };
        for ((part, taken), state) in parts.iter().zip(&taken).zip(states) {
            if self.put_state(&mut shards[taken.shard], part, taken, state) {
                unused = unused.saturating_sub(1);
            }
        }
        self.count.keys.fetch_sub(unused, Ordering::Relaxed);
        drop(shards);
        if matches!(call, HoldCall::Settle(_)) {
            // Callers that wait for a permit may get the slots that are free now.
            for (part, taken) in parts.iter().zip(&taken) {
                self.serve(taken.prepared.known.number, &part.key);
            }
        }
        result
    }

    /// Prepares a part. Unlike [`Store::prepare`](crate::Store::prepare) this does not make its
    /// definition the latest one, because a record may be older than the rule. It does not clean to
    /// make room for a limit, because cleaning needs the lock of the record, which is held.
    fn prepared_for_hold(&self, namespace: &str, part: &HoldPart<'_>) -> Result<Prepared, Error> {
        let machine = AnyMachine::new(part.limit);
        let known = self.known(namespace, part.limit, machine)?;
        Ok(Prepared::new(known, machine, part.limit))
    }

    /// Writes a state back. Returns whether the key got an entry.
    fn put_state(
        &self,
        shard: &mut Shard,
        part: &HoldPart<'_>,
        taken: &Taken,
        state: Option<AnyState>,
    ) -> bool {
        part.key.with_compact(|key| {
            let lookup: Lookup<'_> = taken.prepared.lookup(taken.hash, key);
            match (taken.known, state) {
                (true, state) => {
                    shard.put_state(lookup, &self.count, state);
                    false
                }
                (false, Some(state)) if taken.copy.as_ref() != Some(&state) => {
                    shard.insert_state(lookup, &self.hasher, state);
                    true
                }
                (false, _) => false,
            }
        })
    }
}

/// Returns the denial of a reservation that needs a key without an entry while the store is at its
/// bound on keys. Its wait is not known.
fn denied_by_overflow(
    call: &HoldCall,
    taken: &[Taken],
    states: &mut [Option<AnyState>],
    now: Timestamp,
) -> HoldReply {
    let HoldCall::Reserve { items, .. } = call else {
        unreachable!("only reservations are denied")
    };
    let outcomes = taken.iter().zip(states).map(|(taken, state)| {
        let machine = &taken.prepared.machine;
        if taken.known {
            return machine.act(state, now, Act::Op(Op::Peek(0)));
        }
        // The state of other keys must not become that of this key.
        *state = None;
        denied_at_bound(machine, now, 0)
    });
    let item = |units: u64| HoldItemReply { units, fence: None, overdrawn: false };
    HoldReply {
        status: HoldStatus::Denied,
        repeated: false,
        now,
        deadline: None,
        outcomes: outcomes.collect(),
        items: items.iter().map(|held| item(held.units)).collect(),
    }
}

/// Returns the denial of a key without an entry while the store is at its bound on keys. Its wait is
/// not known.
pub(super) fn denied_at_bound(machine: &AnyMachine, now: Timestamp, cost: u64) -> Outcome {
    let limit = machine.capacity();
    let step = Step { allowed: false, cost, charged: 0, changed: false };
    let fields =
        Fields { limit, remaining: 0, used: limit, retry_at: None, fresh_at: None, mark: 0 };
    Outcome::of_fields(step, now, fields).with_source(Source::Overflow)
}

impl Prepared {
    pub(super) fn new(
        known: Arc<super::shard::Known>,
        machine: AnyMachine,
        limit: &crate::Limit,
    ) -> Prepared {
        let is_whole = matches!(machine, AnyMachine::Gcra(machine) if machine.is_whole());
        Prepared { known, machine, has_no_parts: is_whole && limit.name().is_none() }
    }
}
