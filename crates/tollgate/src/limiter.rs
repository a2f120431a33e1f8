//! Limiters on in-process stores.

use std::sync::Arc;

use crate::algorithm::Op;
use crate::decision::{Decision, Group, room, usage};
use crate::error::Error;
use crate::key::Key;
use crate::limit::Limit;
use crate::outcome::Receipt;
use crate::policy::{MAX_LIMITS, Policy};
use crate::shared::Place;
use crate::store::{HitItem, Store};
use crate::time::Timestamp;
use crate::together::{Counter, Item};
use crate::wait::Queue;
use crate::wire_receipt::WireReceipt;
use crate::wire_refund::{CheckedReceipts, WireRefund, last_of_each, refunds, wire_receipts};

/// One or several limits on a store. A hit charges all of them or none.
///
/// ```
/// use tollgate::{Limit, Memory};
///
/// let limiter = Memory::new().limiter(Limit::per_second(10).burst(20))?;
/// let decision = limiter.hit("user:42");
/// if !decision.allowed() {
///     println!("come back in {:?}", decision.retry_after());
/// }
/// # Ok::<(), tollgate::Error>(())
/// ```
///
/// ```
/// let limiter = tollgate::Memory::new().limiter("2/second; 3/minute")?;
/// let decision = limiter.hit("user:42");
/// assert!(decision.allowed());
/// assert_eq!(decision.remaining(), 1);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limiter<S: Store> {
    pub(crate) store: S,
    namespace: Arc<str>,
    /// The first limit. The other limits are stored separately, because most limiters have one
    /// limit, and hits of one limit must be fast.
    first: S::Prepared,
    rest: Box<[S::Prepared]>,
    policy: Policy,
    pub(crate) queue: Queue,
}

/// A [`Limiter`] whose calls use a given time instead of reading the clock.
///
/// ```
/// use tollgate::{Memory, Timestamp};
///
/// let limiter = Memory::new().limiter("1/second")?;
/// assert!(limiter.at(Timestamp::from_micros(0)).hit("a").allowed());
/// assert!(!limiter.at(Timestamp::from_micros(999_999)).hit("a").allowed());
/// assert!(limiter.at(Timestamp::from_micros(1_000_000)).hit("a").allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Debug)]
pub struct At<'a, S: Store> {
    limiter: &'a Limiter<S>,
    now: Timestamp,
}

impl<S: Store> Limiter<S> {
    /// Creates a limiter on a store, in a namespace. The method `limiter_in` of a store does the
    /// same.
    ///
    /// # Errors
    /// Fails if a limit is not valid, or the store does not support it.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Memory};
    /// let limiter = Limiter::new(&Memory::new(), "", Limit::per_second(10))?;
    /// assert!(limiter.hit("a").allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn new<P>(store: &S, namespace: &str, policy: P) -> Result<Self, Error>
    where
        P: TryInto<Policy>,
        Error: From<P::Error>,
    {
        let policy = policy.try_into()?;
        policy.check_for_hits()?;
        let (first, rest) = policy.split_first();
        let prepare = |limit| store.prepare(namespace, limit);
        let first = prepare(first)?;
        let rest = rest.iter().map(prepare).collect::<Result<_, Error>>()?;
        let (store, namespace) = (store.clone(), namespace.into());
        Ok(Limiter { store, namespace, first, rest, policy, queue: Queue::default() })
    }

    /// Returns the limits as a policy.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("2/second; 3/minute")?;
    /// assert_eq!(limiter.policy().to_string(), "2/second; 3/minute");
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the limits, in the order of the outcomes.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("5/minute")?;
    /// assert_eq!(limiter.limits()[0].quota(), 5);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        self.policy.limits()
    }

    /// Returns the identity of each counter.
    pub(crate) fn counters(&self) -> impl Iterator<Item = Counter<'_>> {
        self.limits().iter().map(|limit| Counter { namespace: &self.namespace, limit })
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        self.limits().iter().map(|limit| Place::new(&self.namespace, limit))
    }

    pub(crate) fn prepared(&self) -> impl Iterator<Item = &S::Prepared> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// Returns a handle whose calls use the given time instead of reading the clock.
    ///
    /// See the example of [`At`].
    #[must_use]
    #[inline]
    pub fn at(&self, now: Timestamp) -> At<'_, S> {
        At { limiter: self, now }
    }

    /// Hits all limits or none. It is not inlined and returns only a `Group`. If it returned a
    /// `Decision`, the compiler would build every decision in memory, even that of a single limit.
    #[cold]
    #[inline(never)]
    fn hit_group<K: Key>(&self, key: &K, now: Timestamp, cost: u64) -> Group {
        let outcomes = key.with_key(|key| {
            // The items beyond the last limit are not used.
            let prepared = |index: usize| match index.checked_sub(1) {
                Some(rest) => self.rest.get(rest).unwrap_or(&self.first),
                None => &self.first,
            };
            let item = |index| HitItem { prepared: prepared(index), key, cost };
            let items: [HitItem<'_, S::Prepared>; MAX_LIMITS] = std::array::from_fn(item);
            self.store.hit_together(&items[..=self.rest.len()], now)
        });
        Group::new(outcomes)
    }

    #[inline]
    fn now(&self) -> At<'_, S> {
        self.at(self.store.now())
    }

    /// Decides whether this key may make one more request now. Charges one unit to every limit if
    /// all of them allow it.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("1/hour")?;
    /// assert!(limiter.hit("alice").allowed());
    /// assert!(!limiter.hit("alice").allowed());
    /// assert!(limiter.hit("bob").allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn hit<K: Key>(&self, key: K) -> Decision {
        self.hit_n(key, 1)
    }

    /// Decides whether this key may make a request of this cost now, and charges the cost if so. A
    /// cost above the capacity is always denied.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("10/hour")?;
    /// assert!(limiter.hit_n("alice", 10).allowed());
    /// assert!(!limiter.hit_n("bob", 11).allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn hit_n<K: Key>(&self, key: K, cost: u64) -> Decision {
        if self.rest.is_empty() {
            self.store.hit_now(&self.first, &key, cost).into()
        } else {
            self.hit_group(&key, self.store.now(), cost).into()
        }
    }

    /// Returns the decision that a hit would get, and changes nothing.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("1/hour")?;
    /// assert!(limiter.peek("alice").allowed());
    /// assert!(limiter.peek("alice").allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn peek<K: Key>(&self, key: K) -> Decision {
        self.peek_n(key, 1)
    }

    /// Returns the decision that a hit of this cost would get, and changes nothing.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("2/hour")?;
    /// assert_eq!(limiter.peek_n("alice", 3).retry_after(), None);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn peek_n<K: Key>(&self, key: K, cost: u64) -> Decision {
        self.now().peek_n(key, cost)
    }

    /// Charges every limit as many units as fit all limits, from zero to `cost`.
    /// [`Decision::charged`] is their number. If it is zero, the decision is a denial, and
    /// `retry_after` is the wait for one unit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("5/hour")?;
    /// assert_eq!(limiter.take("alice", 3).charged(), 3);
    /// assert_eq!(limiter.take("alice", 3).charged(), 2);
    /// assert!(!limiter.take("alice", 3).allowed());
    ///
    /// let several = tollgate::Memory::new().limiter("5/hour; 7/day")?;
    /// let charged = |cost| several.take("alice", cost).charged();
    /// assert_eq!((charged(3), charged(3), charged(3)), (3, 2, 0));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn take<K: Key>(&self, key: K, cost: u64) -> Decision {
        self.now().take(key, cost)
    }

    /// Charges every limit without checking. The usage may exceed the limit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("5/hour fixed-window")?;
    /// assert_eq!(limiter.charge("alice", 7).used(), 7);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn charge<K: Key>(&self, key: K, units: u64) -> Decision {
        self.now().charge(key, units)
    }

    /// Gives back the units that a decision charged, if they are still in use. A refund never
    /// affects another window, and a key never has more than a fresh one.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("1/hour")?;
    /// let decision = limiter.hit("alice");
    /// assert_eq!(limiter.refund("alice", &decision).used(), 0);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn refund<K: Key>(&self, key: K, decision: &Decision) -> Decision {
        self.now().refund(key, decision)
    }

    /// Gives back at most this many of the units that a decision charged to each limit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("20/hour")?;
    /// let decision = limiter.hit_n("alice", 5);
    /// assert_eq!(limiter.refund_part("alice", &decision, 2).used(), 3);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn refund_part<K: Key>(&self, key: K, decision: &Decision, units: u64) -> Decision {
        self.now().refund_part(key, decision, units)
    }

    /// Gives back the units of these [receipts](Decision::receipts), one for each limit in their
    /// order. It is for callers that keep receipts instead of decisions.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("1/hour")?;
    /// let receipts: Vec<_> = limiter.hit("alice").receipts().collect();
    /// assert_eq!(limiter.refund_receipts("alice", &receipts).used(), 0);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn refund_receipts<K: Key>(&self, key: K, receipts: &[Receipt]) -> Decision {
        self.now().refund_receipts(key, receipts)
    }

    /// Returns the receipts of a decision as [`WireReceipt`]s, for a refund by another process or by
    /// a caller over a network. There is one for each limit that was charged. The key must be that
    /// of the decision.
    ///
    /// See the example of [`WireRefund`].
    pub fn wire_receipts<K: Key>(
        &self,
        key: K,
        decision: &Decision,
    ) -> impl Iterator<Item = WireReceipt> {
        wire_receipts(self.places(), key, decision)
    }

    /// Gives back the units of receipts of this key, at most `units` of each receipt. `None` means
    /// all of them. The receipts may be of several hits, and of some limits only. All are checked
    /// before any unit is given back.
    ///
    /// # Errors
    /// Fails if there are no receipts or more than 256, if one is for another key, limit or
    /// namespace, or has charged fewer units. Then nothing is given back.
    ///
    /// See the example of [`WireRefund`].
    pub fn refund_wire_receipts<K: Key>(
        &self,
        key: K,
        receipts: &[WireReceipt],
        units: Option<u64>,
    ) -> Result<WireRefund, Error> {
        self.now().refund_wire_receipts(key, receipts, units)
    }

    /// Gives back this many units, the newest first. It is a correction for callers that have no
    /// receipt, and it may give back units of other hits. Prefer [`refund`](Limiter::refund).
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("5/hour fixed-window")?;
    /// limiter.charge("alice", 4);
    /// assert_eq!(limiter.refund_n("alice", 3).used(), 1);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn refund_n<K: Key>(&self, key: K, units: u64) -> Decision {
        self.now().refund_n(key, units)
    }

    /// Sets the units in use of every limit to `units`, which may exceed the limit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("5/hour fixed-window")?;
    /// assert_eq!(limiter.set("alice", 4).remaining(), 1);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn set<K: Key>(&self, key: K, units: u64) -> Decision {
        self.now().set(key, units)
    }

    /// Forgets the key in every limit. Returns true if it was not fresh in at least one of them.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("1/hour")?;
    /// limiter.hit("alice");
    /// assert!(limiter.reset("alice"));
    /// assert!(!limiter.reset("alice"));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn reset<K: Key>(&self, key: K) -> bool {
        self.now().reset(key)
    }

    /// Returns the units in use now. With several limits it returns those of the limit that is the
    /// [headline](Decision::headline) of a [peek](Limiter::peek).
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("5/hour fixed-window")?;
    /// limiter.hit_n("alice", 2);
    /// assert_eq!(limiter.usage("alice"), 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn usage<K: Key>(&self, key: K) -> u64 {
        self.now().usage(key)
    }

    /// Forgets all keys of every limit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("1/hour")?;
    /// limiter.hit("alice");
    /// limiter.clear();
    /// assert!(limiter.hit("alice").allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn clear(&self) {
        self.prepared().for_each(|prepared| self.store.clear(prepared));
    }

    /// Hits many keys independently, and calls `f` with the index and the decision of each key. On
    /// [`Atomic`](crate::Atomic) with many keys this is faster than separate hits, because the
    /// processor fetches the memory of several keys at the same time.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("1/hour")?;
    /// let mut allowed = vec![];
    /// limiter.hit_each(&["alice", "bob", "alice"], |_, decision| allowed.push(decision.allowed()));
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline]
    pub fn hit_each<K: Key>(&self, keys: &[K], f: impl FnMut(usize, Decision)) {
        self.now().hit_each(keys, f);
    }

    /// Combines this limiter with a key and a cost, for [`hit_all`](crate::hit_all).
    ///
    /// See the example of [`hit_all`](crate::hit_all).
    pub fn item<K: Key>(&self, key: K, cost: u64) -> Item<'_, S> {
        Item::new(self, key, cost)
    }
}

impl<S: Store> At<'_, S> {
    /// Executes one operation on each limit, independently of the other limits.
    fn each<K: Key>(&self, key: &K, op: impl Fn(usize) -> Op) -> Decision {
        let Limiter { store, first, rest, .. } = self.limiter;
        key.with_key(|key| {
            if rest.is_empty() {
                return store.apply(first, key, self.now, op(0)).into();
            }
            let apply = |(index, limit)| store.apply(limit, key, self.now, op(index));
            let outcomes: Vec<_> = self.limiter.prepared().enumerate().map(apply).collect();
            Group::new(outcomes).into()
        })
    }

    /// See [`Limiter::hit`].
    #[inline(always)]
    #[must_use]
    pub fn hit<K: Key>(&self, key: K) -> Decision {
        self.hit_n(key, 1)
    }

    /// See [`Limiter::hit_n`].
    #[inline(always)]
    #[must_use]
    pub fn hit_n<K: Key>(&self, key: K, cost: u64) -> Decision {
        let Limiter { store, first, rest, .. } = self.limiter;
        if rest.is_empty() {
            store.hit(first, &key, store.hint(first, &key), self.now, cost).into()
        } else {
            self.limiter.hit_group(&key, self.now, cost).into()
        }
    }

    /// See [`Limiter::peek`].
    #[must_use]
    pub fn peek<K: Key>(&self, key: K) -> Decision {
        self.peek_n(key, 1)
    }

    /// See [`Limiter::peek_n`].
    #[must_use]
    pub fn peek_n<K: Key>(&self, key: K, cost: u64) -> Decision {
        self.each(&key, |_| Op::Peek(cost))
    }

    /// See [`Limiter::take`].
    #[must_use]
    pub fn take<K: Key>(&self, key: K, cost: u64) -> Decision {
        if self.limiter.rest.is_empty() {
            return self.each(&key, |_| Op::Take(cost));
        }
        loop {
            let granted = room(self.peek_n(&key, cost).outcomes()).min(cost);
            let decision = self.hit_n(&key, granted.max(cost.min(1)));
            // If the hit is denied although units were left, another caller took them: try again.
            if decision.allowed() || granted == 0 {
                return decision;
            }
        }
    }

    /// See [`Limiter::charge`].
    pub fn charge<K: Key>(&self, key: K, units: u64) -> Decision {
        self.each(&key, |_| Op::Charge(units))
    }

    /// See [`Limiter::refund`].
    pub fn refund<K: Key>(&self, key: K, decision: &Decision) -> Decision {
        self.refund_part(key, decision, u64::MAX)
    }

    /// See [`Limiter::refund_part`].
    pub fn refund_part<K: Key>(&self, key: K, decision: &Decision, units: u64) -> Decision {
        let outcomes = decision.outcomes();
        self.each(&key, |index| match outcomes.get(index) {
            Some(outcome) => Op::Refund(outcome.receipt().at_most(units)),
            None => Op::RefundUnits(0),
        })
    }

    /// See [`Limiter::refund_receipts`].
    pub fn refund_receipts<K: Key>(&self, key: K, receipts: &[Receipt]) -> Decision {
        self.each(&key, |index| match receipts.get(index) {
            Some(receipt) => Op::Refund(*receipt),
            None => Op::RefundUnits(0),
        })
    }

    /// See [`Limiter::refund_wire_receipts`].
    ///
    /// # Errors
    /// Fails if [`Limiter::refund_wire_receipts`] does.
    pub fn refund_wire_receipts<K: Key>(
        &self,
        key: K,
        receipts: &[WireReceipt],
        units: Option<u64>,
    ) -> Result<WireRefund, Error> {
        let places: Vec<Place> = self.limiter.places().collect();
        let checked = CheckedReceipts::new(&places, &key, receipts, units)?;
        let ops = refunds(places.len(), &checked.honoured);
        let prepared: Vec<_> = self.limiter.prepared().collect();
        let outcomes = key.with_key(|key| {
            let apply = |(limit, op): &(usize, Op)| {
                self.limiter.store.apply(prepared[*limit], key, self.now, *op)
            };
            ops.iter().map(apply).collect()
        });
        let decision = Group::new(last_of_each(&ops, outcomes)).into();
        Ok(WireRefund { decision, ignored: checked.ignored })
    }

    /// See [`Limiter::refund_n`].
    pub fn refund_n<K: Key>(&self, key: K, units: u64) -> Decision {
        self.each(&key, |_| Op::RefundUnits(units))
    }

    /// See [`Limiter::set`].
    pub fn set<K: Key>(&self, key: K, units: u64) -> Decision {
        self.each(&key, |_| Op::Set(units))
    }

    /// See [`Limiter::reset`].
    pub fn reset<K: Key>(&self, key: K) -> bool {
        let store = &self.limiter.store;
        key.with_key(|key| {
            let reset = |limit| store.apply(limit, key, self.now, Op::Reset).allowed();
            self.limiter.prepared().map(reset).fold(false, |any, one| any | one)
        })
    }

    /// See [`Limiter::usage`].
    pub fn usage<K: Key>(&self, key: K) -> u64 {
        usage(self.peek(key).outcomes())
    }

    /// See [`Limiter::hit_each`].
    #[inline]
    pub fn hit_each<K: Key>(&self, keys: &[K], mut f: impl FnMut(usize, Decision)) {
        /// The number of cache lines that a processor fetches at the same time.
        const FETCHED: usize = 16;
        let Limiter { store, first: prepared, rest, .. } = self.limiter;
        if !rest.is_empty() {
            keys.iter().enumerate().for_each(|(index, key)| f(index, self.hit(key)));
            return;
        }
        for (group, keys) in keys.chunks(FETCHED).enumerate() {
            let mut hints = [0; FETCHED];
            for (hint, key) in hints.iter_mut().zip(keys) {
                *hint = store.hint(prepared, key);
            }
            for (index, (key, hint)) in keys.iter().zip(hints).enumerate() {
                let outcome = store.hit(prepared, key, hint, self.now, 1);
                f(group * FETCHED + index, outcome.into());
            }
        }
    }
}
