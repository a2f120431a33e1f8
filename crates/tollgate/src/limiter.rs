//! What users hold: a store and a limit.

use crate::algorithm::Op;
use crate::decision::Decision;
use crate::error::Error;
use crate::key::Key;
use crate::limit::Limit;
use crate::outcome::Receipt;
use crate::store::Store;
use crate::time::Timestamp;
use crate::wait::Queue;

/// A limit on a store: asks for one key at a time.
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
#[derive(Clone, Debug)]
pub struct Limiter<S: Store> {
    pub(crate) store: S,
    pub(crate) prepared: S::Prepared,
    pub(crate) limit: Limit,
    pub(crate) queue: Queue,
}

/// A [`Limiter`] at a given time: the same calls, with the time passed instead of read.
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
    /// On a store, in a namespace: what `limiter_in` of the stores calls.
    ///
    /// # Errors
    /// When the limit is not valid or the store cannot hold it.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Memory};
    /// let limiter = Limiter::on(&Memory::new(), "", Limit::per_second(10))?;
    /// assert!(limiter.hit("a").allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn on<L>(store: &S, namespace: &str, limit: L) -> Result<Self, Error>
    where
        L: TryInto<Limit>,
        Error: From<L::Error>,
    {
        let limit = limit.try_into()?;
        let prepared = store.prepare(namespace, &limit)?;
        Ok(Limiter { store: store.clone(), prepared, limit, queue: Queue::default() })
    }

    /// The limit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("5/minute")?;
    /// assert_eq!(limiter.limit().quota(), 5);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// The same calls at a given time.
    ///
    /// See the example of [`At`].
    #[must_use]
    #[inline]
    pub fn at(&self, now: Timestamp) -> At<'_, S> {
        At { limiter: self, now }
    }

    #[inline]
    fn now(&self) -> At<'_, S> {
        self.at(self.store.now())
    }

    /// May this key do one more now? Charges one unit if so.
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

    /// May this key do something of that cost now? Charges it if so. A cost above the capacity
    /// never passes.
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
        self.store.hit_now(&self.prepared, &key, cost).into()
    }

    /// What a hit would get, without charging or pushing anything.
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

    /// What a hit of that cost would get.
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

    /// Charges as much of `cost` as fits, from none to all: [`Decision::charged`] tells how much.
    /// Denied when that is none; then `retry_after` is the wait for one unit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("5/hour")?;
    /// assert_eq!(limiter.take("alice", 3).charged(), 3);
    /// assert_eq!(limiter.take("alice", 3).charged(), 2);
    /// assert!(!limiter.take("alice", 3).allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn take<K: Key>(&self, key: K, cost: u64) -> Decision {
        self.now().take(key, cost)
    }

    /// Charges without asking; may exceed the limit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("5/hour fixed-window")?;
    /// assert_eq!(limiter.charge("alice", 7).used(), 7);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn charge<K: Key>(&self, key: K, units: u64) -> Decision {
        self.now().charge(key, units)
    }

    /// Gives back what a decision charged, as far as it is still there: never into another window,
    /// never beyond fresh.
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

    /// Gives back at most that many of the units that a decision charged to each limit.
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

    /// Gives back what these [receipts](Decision::receipts) say, one for each limit in order: for
    /// callers that keep receipts instead of decisions.
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

    /// Gives back that many units, the newest first: a correction by callers who kept no receipt.
    /// It may take units of others. Prefer [`refund`](Limiter::refund).
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

    /// Puts the units in use at `units`, which may exceed the limit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("5/hour fixed-window")?;
    /// assert_eq!(limiter.set("alice", 4).remaining(), 1);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn set<K: Key>(&self, key: K, units: u64) -> Decision {
        self.now().set(key, units)
    }

    /// Forgets the key; true if it was not fresh.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("1/hour")?;
    /// limiter.hit("alice");
    /// assert!(limiter.reset("alice"));
    /// assert!(!limiter.reset("alice"));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[allow(clippy::must_use_candidate)]
    pub fn reset<K: Key>(&self, key: K) -> bool {
        self.now().reset(key)
    }

    /// Units in use now.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("5/hour fixed-window")?;
    /// limiter.hit_n("alice", 2);
    /// assert_eq!(limiter.usage("alice"), 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn usage<K: Key>(&self, key: K) -> u64 {
        self.peek(key).used()
    }

    /// Forgets all keys of this limit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().limiter("1/hour")?;
    /// limiter.hit("alice");
    /// limiter.clear();
    /// assert!(limiter.hit("alice").allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn clear(&self) {
        self.store.clear(&self.prepared);
    }

    /// Hits many keys, each on its own, and calls `f` with the index and the decision of each.
    /// Faster than one by one on [`Atomic`](crate::Atomic) with many keys, because the memory of
    /// all is fetched together.
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

    /// This limit, a key and a cost, for [`hit_all`](crate::hit_all).
    ///
    /// See the example of [`hit_all`](crate::hit_all).
    pub fn item<K: Key>(&self, key: K, cost: u64) -> crate::together::Item<'_, S> {
        crate::together::Item::new(&self.store, std::slice::from_ref(&self.prepared), key, cost)
    }
}

impl<S: Store> At<'_, S> {
    #[inline]
    fn apply<K: Key>(&self, key: &K, op: Op) -> Decision {
        let Limiter { store, prepared, .. } = self.limiter;
        key.with_key(|key| store.apply(prepared, key, self.now, op)).into()
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
        let Limiter { store, prepared, .. } = self.limiter;
        store.hit(prepared, &key, store.hint(prepared, &key), self.now, cost).into()
    }

    /// See [`Limiter::peek`].
    #[must_use]
    pub fn peek<K: Key>(&self, key: K) -> Decision {
        self.apply(&key, Op::Peek(1))
    }

    /// See [`Limiter::peek_n`].
    #[must_use]
    pub fn peek_n<K: Key>(&self, key: K, cost: u64) -> Decision {
        self.apply(&key, Op::Peek(cost))
    }

    /// See [`Limiter::take`].
    #[must_use]
    pub fn take<K: Key>(&self, key: K, cost: u64) -> Decision {
        self.apply(&key, Op::Take(cost))
    }

    /// See [`Limiter::charge`].
    pub fn charge<K: Key>(&self, key: K, units: u64) -> Decision {
        self.apply(&key, Op::Charge(units))
    }

    /// See [`Limiter::refund`].
    pub fn refund<K: Key>(&self, key: K, decision: &Decision) -> Decision {
        self.refund_part(key, decision, u64::MAX)
    }

    /// See [`Limiter::refund_part`].
    pub fn refund_part<K: Key>(&self, key: K, decision: &Decision, units: u64) -> Decision {
        let receipts: Vec<_> = decision.receipts().map(|receipt| receipt.at_most(units)).collect();
        self.refund_receipts(key, &receipts)
    }

    /// See [`Limiter::refund_receipts`].
    pub fn refund_receipts<K: Key>(&self, key: K, receipts: &[Receipt]) -> Decision {
        let op = receipts.first().map_or(Op::RefundUnits(0), |receipt| Op::Refund(*receipt));
        self.apply(&key, op)
    }

    /// See [`Limiter::refund_n`].
    pub fn refund_n<K: Key>(&self, key: K, units: u64) -> Decision {
        self.apply(&key, Op::RefundUnits(units))
    }

    /// See [`Limiter::set`].
    pub fn set<K: Key>(&self, key: K, units: u64) -> Decision {
        self.apply(&key, Op::Set(units))
    }

    /// See [`Limiter::reset`].
    #[allow(clippy::must_use_candidate)]
    pub fn reset<K: Key>(&self, key: K) -> bool {
        let Limiter { store, prepared, .. } = self.limiter;
        key.with_key(|key| store.reset(prepared, key, self.now))
    }

    /// See [`Limiter::usage`].
    pub fn usage<K: Key>(&self, key: K) -> u64 {
        self.peek(key).used()
    }

    /// See [`Limiter::hit_each`].
    #[inline]
    pub fn hit_each<K: Key>(&self, keys: &[K], mut f: impl FnMut(usize, Decision)) {
        /// As many as a processor fetches at once.
        const AT_ONCE: usize = 16;
        let Limiter { store, prepared, .. } = self.limiter;
        for (group, keys) in keys.chunks(AT_ONCE).enumerate() {
            let mut hints = [0; AT_ONCE];
            for (hint, key) in hints.iter_mut().zip(keys) {
                *hint = store.hint(prepared, key);
            }
            for (index, (key, hint)) in keys.iter().zip(hints).enumerate() {
                let outcome = store.hit(prepared, key, hint, self.now, 1);
                f(group * AT_ONCE + index, outcome.into());
            }
        }
    }
}
