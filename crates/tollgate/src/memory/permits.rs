//! Permits: units of a concurrency limit for work in this process.
//!
//! A permit is a holder without a record. It is released when it is dropped, so also by a panic and
//! by the cancellation of the future that owns it. Callers that wait for a key are served in the
//! order of their arrival: a release gives the units to the first of them, and no caller that came
//! later can take them first.
//!
//! Locks are taken in one order: the queues, then a shard. A release looks for waiting callers after
//! it has unlocked the shard. It cannot miss one: a caller joins its queue and counts itself before
//! it tries to take units under the lock of the shard.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use super::{Inner, Memory, Prepared};
use crate::algorithm::concurrent::NO_DEADLINE;
use crate::clock::Clock;
use crate::error::Error;
use crate::hold::Holds;
use crate::key::{Key, KeyRef, OwnedKey};
use crate::keyed::lock;
use crate::limit::Algorithm;
use crate::time::Timestamp;

/// The longest pause between two attempts of a waiting caller. Units of a hold become free at its
/// deadline without a release.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Units of a concurrency limit that this process holds. They are released on drop.
///
/// ```
/// let jobs = tollgate::Memory::new().holds("2 concurrent")?;
/// let first = jobs.permit("deploy", 1)?;
/// let second = jobs.permit("deploy", 1)?;
/// assert!(first.is_some() && second.is_some());
/// assert!(jobs.permit("deploy", 1)?.is_none());
/// drop(first);
/// assert!(jobs.permit("deploy", 1)?.is_some());
/// # Ok::<(), tollgate::Error>(())
/// ```
#[must_use = "a permit is released when it is dropped"]
pub struct Permit<C: Clock + 'static> {
    store: Memory<C>,
    prepared: Prepared,
    key: OwnedKey,
    id: u128,
    fence: u64,
}

impl<C: Clock + 'static> std::fmt::Debug for Permit<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit").field("fence", &self.fence).finish_non_exhaustive()
    }
}

impl<C: Clock + 'static> Permit<C> {
    /// Returns the fence of the grant: a number that is higher than those of all grants before it on
    /// this key.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.fence
    }
}

impl<C: Clock + 'static> Drop for Permit<C> {
    fn drop(&mut self) {
        self.store.inner.release(&self.prepared, &self.key, self.id);
    }
}

/// The callers that wait for units of one key, the first one in front.
type Queue = VecDeque<Arc<Waiter>>;

/// The callers that wait for units.
#[derive(Debug, Default)]
pub(super) struct Queues {
    /// The number of callers in all queues. A release without waiting callers takes no lock.
    waiting: AtomicUsize,
    /// The queues by the number of the limit and the key.
    by_key: Mutex<HashMap<(u32, OwnedKey), Queue>>,
}

#[derive(Debug)]
struct Waiter {
    prepared: Prepared,
    id: u128,
    units: u64,
    turn: Mutex<Turn>,
}

#[derive(Debug)]
enum Turn {
    Waits(Option<Waker>),
    /// The units were taken for this caller, with this fence.
    Granted(u64),
}

fn new_id() -> u128 {
    // Permits live in one process, so a number that is not repeated is enough. The number of a hold
    // is a hash of 128 bits, which is not a number as small as these.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    u128::from(NEXT.fetch_add(1, Ordering::Relaxed))
}

impl<C: Clock> Inner<C> {
    fn acquire(
        &self,
        prepared: &Prepared,
        key: &OwnedKey,
        id: u128,
        units: u64,
        now: Timestamp,
    ) -> Option<u64> {
        key.as_key_ref().with_compact(|key| {
            let hash = key.hash(&self.hasher);
            let lookup = prepared.lookup(hash, key);
            let mut shard = self.shard(lookup.shard_hash());
            let now = now.max(shard.floor);
            shard
                .slots(lookup, &self.count, &self.hasher, |slots, state| {
                    slots.acquire(state, now, id, units, NO_DEADLINE)
                })
                .flatten()
        })
    }

    fn release(&self, prepared: &Prepared, key: &OwnedKey, id: u128) {
        key.as_key_ref().with_compact(|key| {
            let hash = key.hash(&self.hasher);
            let lookup = prepared.lookup(hash, key);
            let release = |slots: &crate::algorithm::concurrent::Concurrent, state: &mut _| {
                slots.release(state, id)
            };
            self.shard(lookup.shard_hash()).slots(lookup, &self.count, &self.hasher, release)
        });
        // Even if the holder is gone: its units may have become free by a reset of the key.
        self.serve(prepared.known.number, &key.as_key_ref());
    }

    /// Gives free units of a key to the callers that wait for them, in order.
    pub(super) fn serve(&self, limit: u32, key: &KeyRef<'_>) {
        if self.queues.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let key = &OwnedKey::new(key);
        let mut queues = lock(&self.queues.by_key);
        let wakers = self.serve_queue(&mut queues, limit, key);
        drop(queues);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns the wakers of the callers that were served. They are woken after the queues are
    /// unlocked, because a waker may run the caller.
    fn serve_queue(
        &self,
        queues: &mut HashMap<(u32, OwnedKey), Queue>,
        limit: u32,
        key: &OwnedKey,
    ) -> Vec<Waker> {
        let (mut wakers, name) = (Vec::new(), (limit, key.clone()));
        let Some(queue) = queues.get_mut(&name) else { return wakers };
        while let Some(first) = queue.front() {
            let now = self.clock.now();
            let Some(fence) = self.acquire(&first.prepared, key, first.id, first.units, now) else {
                break;
            };
            let before = std::mem::replace(&mut *lock(&first.turn), Turn::Granted(fence));
            queue.pop_front();
            self.queues.waiting.fetch_sub(1, Ordering::Relaxed);
            if let Turn::Waits(Some(waker)) = before {
                wakers.push(waker);
            }
        }
        if queue.is_empty() {
            queues.remove(&name);
        }
        wakers
    }

    /// Returns whether callers wait for this key.
    fn has_queue(&self, limit: u32, key: &OwnedKey) -> bool {
        self.queues.waiting.load(Ordering::Relaxed) > 0
            && lock(&self.queues.by_key).contains_key(&(limit, key.clone()))
    }
}

/// The place of a caller in the queue of a key. Dropping it leaves the queue, and releases units
/// that were granted and not taken.
struct Place<C: Clock + 'static> {
    store: Memory<C>,
    key: OwnedKey,
    waiter: Arc<Waiter>,
    taken: bool,
}

impl<C: Clock + 'static> Place<C> {
    fn join(store: &Memory<C>, prepared: &Prepared, key: OwnedKey, units: u64) -> Place<C> {
        let turn = Mutex::new(Turn::Waits(None));
        let waiter = Waiter { prepared: prepared.clone(), id: new_id(), units, turn };
        let waiter = Arc::new(waiter);
        let inner = &store.inner;
        inner.queues.waiting.fetch_add(1, Ordering::Relaxed);
        let name = (prepared.known.number, key.clone());
        lock(&inner.queues.by_key).entry(name).or_default().push_back(Arc::clone(&waiter));
        inner.serve(prepared.known.number, &key.as_key_ref());
        Place { store: store.clone(), key, waiter, taken: false }
    }

    fn poll(&mut self, cx: &Context<'_>) -> Poll<Permit<C>> {
        let mut turn = lock(&self.waiter.turn);
        let Turn::Granted(fence) = *turn else {
            *turn = Turn::Waits(Some(cx.waker().clone()));
            return Poll::Pending;
        };
        drop(turn);
        self.taken = true;
        Poll::Ready(Permit {
            store: self.store.clone(),
            prepared: self.waiter.prepared.clone(),
            key: self.key.clone(),
            id: self.waiter.id,
            fence,
        })
    }

    /// Takes units that have become free at the deadline of their hold.
    fn serve(&self) {
        let limit = self.waiter.prepared.known.number;
        self.store.inner.serve(limit, &self.key.as_key_ref());
    }
}

impl<C: Clock + 'static> Drop for Place<C> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let inner = &self.store.inner;
        let limit = self.waiter.prepared.known.number;
        let mut queues = lock(&inner.queues.by_key);
        if let Turn::Granted(_) = *lock(&self.waiter.turn) {
            drop(queues);
            return inner.release(&self.waiter.prepared, &self.key, self.waiter.id);
        }
        if let Some(queue) = queues.get_mut(&(limit, self.key.clone())) {
            queue.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
            inner.queues.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        // The next caller may need fewer units than this one.
        let wakers = inner.serve_queue(&mut queues, limit, &self.key);
        drop(queues);
        wakers.into_iter().for_each(Waker::wake);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<C: Clock + 'static> Holds<Memory<C>> {
    /// Returns the only limit of these holds.
    fn slots(&self, units: u64) -> Result<&Prepared, Error> {
        let limits = self.policy().limits();
        let ([limit], [prepared]) = (limits, &self.prepared[..]) else {
            return Err(Error::request(format!(
                "a permit of {} limits: a permit is of one concurrency limit; use reserve",
                limits.len()
            )));
        };
        if limit.algorithm() != Algorithm::Concurrent {
            return Err(Error::unsupported(limit, "only a concurrency limit has permits"));
        }
        if units == 0 || units > limit.quota() {
            return Err(Error::request(format!(
                "permit of {units} units of {limit}: must be from 1 to {}",
                limit.quota()
            )));
        }
        Ok(prepared)
    }

    /// Takes units if they are free now and no other caller waits for them. `None` if not.
    ///
    /// # Errors
    /// Fails if this is not a single concurrency limit, or the units are 0 or exceed it.
    ///
    /// See the example of [`Permit`].
    pub fn permit<K: Key>(&self, key: K, units: u64) -> Result<Option<Permit<C>>, Error> {
        let prepared = self.slots(units)?;
        let (key, inner) = (OwnedKey::new(&key), &self.store.inner);
        if inner.has_queue(prepared.known.number, &key) {
            return Ok(None);
        }
        let id = new_id();
        let fence = inner.acquire(prepared, &key, id, units, inner.clock.now());
        let store = || self.store.clone();
        let permit = |fence| Permit { store: store(), prepared: prepared.clone(), key, id, fence };
        Ok(fence.map(permit))
    }

    /// Waits until units are free, behind the callers that came before. Dropping the future leaves
    /// the queue. It is woken by releases in this process; to wait for the deadlines of holds too,
    /// use [`Holds::permit_within`].
    ///
    /// # Errors
    /// Fails if [`Holds::permit`] does.
    pub async fn wait_for_permit<K: Key>(&self, key: K, units: u64) -> Result<Permit<C>, Error> {
        let prepared = self.slots(units)?;
        let mut place = Place::join(&self.store, prepared, OwnedKey::new(&key), units);
        Ok(poll_fn(|cx| place.poll(cx)).await)
    }

    /// Waits at most this long until units are free, behind the callers that came before. `sleep`
    /// is the timer of the runtime, such as `tokio::time::sleep`.
    ///
    /// # Errors
    /// Fails if [`Holds::permit`] does.
    pub async fn permit_within<K: Key, F: Future>(
        &self,
        key: K,
        units: u64,
        timeout: Duration,
        sleep: impl Fn(Duration) -> F,
    ) -> Result<Option<Permit<C>>, Error> {
        let prepared = self.slots(units)?;
        let deadline = self.store.inner.clock.now() + timeout;
        let mut place = Place::join(&self.store, prepared, OwnedKey::new(&key), units);
        loop {
            let left = deadline.since(self.store.inner.clock.now());
            let mut timer = pin!(sleep(left.min(LONGEST_PAUSE)));
            let permit = poll_fn(|cx| match place.poll(cx) {
                Poll::Ready(permit) => Poll::Ready(Some(permit)),
                Poll::Pending => timer.as_mut().poll(cx).map(|_| None),
            });
            if let Some(permit) = permit.await {
                return Ok(Some(permit));
            }
            if left.is_zero() {
                return Ok(None);
            }
            place.serve();
        }
    }

    /// Does the same as [`Holds::permit_within`] and blocks the thread.
    ///
    /// # Errors
    /// Fails if [`Holds::permit`] does.
    pub fn permit_blocking<K: Key>(
        &self,
        key: K,
        units: u64,
        timeout: Duration,
    ) -> Result<Option<Permit<C>>, Error> {
        let prepared = self.slots(units)?;
        let deadline = self.store.inner.clock.now() + timeout;
        let mut place = Place::join(&self.store, prepared, OwnedKey::new(&key), units);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            if let Poll::Ready(permit) = place.poll(&Context::from_waker(&waker)) {
                return Ok(Some(permit));
            }
            let left = deadline.since(self.store.inner.clock.now());
            if left.is_zero() {
                return Ok(None);
            }
            thread::park_timeout(left.min(LONGEST_PAUSE));
            place.serve();
        }
    }
}
