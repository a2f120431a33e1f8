//! What users hold for several limits on one key: a store and a policy.

use crate::algorithm::Op;
use crate::decision::Decision;
use crate::error::Error;
use crate::key::Key;
use crate::limiter::Limiter;
use crate::outcome::Outcome;
use crate::policy::{MAX_LIMITS, Policy};
use crate::store::{Part, Store};
use crate::time::Timestamp;
use crate::wait::Queue;

/// A policy on a store: several limits on one key, all charged or none.
///
/// ```
/// let limiter = tollgate::Memory::new().policy_limiter("2/second; 3/minute")?;
/// let decision = limiter.hit("user:42");
/// assert!(decision.allowed());
/// assert_eq!(decision.headline().remaining(), 1);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PolicyLimiter<S: Store> {
    store: S,
    prepared: Box<[S::Prepared]>,
    policy: Policy,
    queue: Queue,
}

/// A [`PolicyLimiter`] at a given time: the same calls, with the time passed instead of read.
///
/// ```
/// use tollgate::{Memory, Timestamp};
///
/// let limiter = Memory::new().policy_limiter("1/second; 2/minute")?;
/// assert!(limiter.at(Timestamp::from_micros(0)).hit("a").allowed());
/// assert!(!limiter.at(Timestamp::from_micros(999_999)).hit("a").allowed());
/// assert!(limiter.at(Timestamp::from_micros(1_000_000)).hit("a").allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Debug)]
pub struct PolicyAt<'a, S: Store> {
    limiter: &'a PolicyLimiter<S>,
    now: Timestamp,
}

/// A limiter of one limit as a policy: both count in the same state.
///
/// ```
/// use tollgate::{Memory, PolicyLimiter};
/// let limiter = Memory::new().limiter("2/hour")?;
/// let policy = PolicyLimiter::from(limiter.clone());
/// assert!(policy.hit("alice").allowed());
/// assert_eq!(limiter.usage("alice"), 1);
/// # Ok::<(), tollgate::Error>(())
/// ```
impl<S: Store> From<Limiter<S>> for PolicyLimiter<S> {
    fn from(limiter: Limiter<S>) -> Self {
        let Limiter { store, prepared, limit, queue } = limiter;
        PolicyLimiter { store, prepared: Box::new([prepared]), policy: limit.into(), queue }
    }
}

impl<S: Store> PolicyLimiter<S> {
    /// On a store, in a namespace: what `policy_limiter_in` of the stores calls.
    ///
    /// # Errors
    /// When the policy is not valid or the store cannot hold one of its limits.
    ///
    /// ```
    /// use tollgate::{Memory, PolicyLimiter};
    /// let limiter = PolicyLimiter::on(&Memory::new(), "", "2/second; 3/minute")?;
    /// assert!(limiter.hit("a").allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn on<P>(store: &S, namespace: &str, policy: P) -> Result<Self, Error>
    where
        P: TryInto<Policy>,
        Error: From<P::Error>,
    {
        let policy = policy.try_into()?;
        let prepare = |limit| store.prepare(namespace, limit);
        let prepared = policy.limits().iter().map(prepare).collect::<Result<_, Error>>()?;
        Ok(PolicyLimiter { store: store.clone(), prepared, policy, queue: Queue::default() })
    }

    /// The policy.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("2/second; 3/minute")?;
    /// assert_eq!(limiter.policy().limits().len(), 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The same calls at a given time.
    ///
    /// See the example of [`PolicyAt`].
    #[must_use]
    pub fn at(&self, now: Timestamp) -> PolicyAt<'_, S> {
        PolicyAt { limiter: self, now }
    }

    fn now(&self) -> PolicyAt<'_, S> {
        self.at(self.store.now())
    }

    /// May this key do one more now? Charges every limit one unit if all agree.
    ///
    /// See the example of [`PolicyLimiter`].
    #[must_use]
    pub fn hit<K: Key>(&self, key: K) -> Decision {
        self.hit_n(key, 1)
    }

    /// May this key do something of that cost now?
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("9/second; 3/minute")?;
    /// assert!(!limiter.hit_n("alice", 4).allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn hit_n<K: Key>(&self, key: K, cost: u64) -> Decision {
        self.now().hit_n(key, cost)
    }

    /// Hits many keys, each on its own, and calls `f` with the index and the decision of each.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("1/second; 9/hour")?;
    /// let mut allowed = vec![];
    /// limiter.hit_each(&["alice", "bob", "alice"], |_, decision| allowed.push(decision.allowed()));
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn hit_each<K: Key>(&self, keys: &[K], f: impl FnMut(usize, Decision)) {
        self.now().hit_each(keys, f);
    }

    /// Charges every limit as much of `cost` as fits all of them, from none to all. Denied when
    /// that is none; then `retry_after` is the wait for one unit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("5/hour; 7/day")?;
    /// let charged = |cost| limiter.take("alice", cost).headline().charged();
    /// assert_eq!((charged(3), charged(3), charged(3)), (3, 2, 0));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn take<K: Key>(&self, key: K, cost: u64) -> Decision {
        self.now().take(key, cost)
    }

    /// What a hit would get, without charging or pushing anything.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("2/second; 3/minute")?;
    /// assert_eq!(limiter.peek("alice").headline().used(), 0);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn peek<K: Key>(&self, key: K) -> Decision {
        self.peek_n(key, 1)
    }

    /// What a hit of that cost would get.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("2/second; 3/minute")?;
    /// assert!(!limiter.peek_n("alice", 3).allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn peek_n<K: Key>(&self, key: K, cost: u64) -> Decision {
        self.now().peek_n(key, cost)
    }

    /// Charges every limit without asking.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("2/hour; 3/day")?;
    /// assert_eq!(limiter.charge("alice", 5).headline().used(), 5);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn charge<K: Key>(&self, key: K, units: u64) -> Decision {
        self.now().charge(key, units)
    }

    /// Gives back what a decision of this policy charged.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("2/hour; 3/day")?;
    /// let decision = limiter.hit("alice");
    /// assert_eq!(limiter.refund("alice", &decision).headline().used(), 0);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn refund<K: Key>(&self, key: K, decision: &Decision) -> Decision {
        self.refund_part(key, decision, u64::MAX)
    }

    /// Gives back at most that many of the units that a decision of this policy charged to each
    /// limit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("20/hour; 30/day")?;
    /// let decision = limiter.hit_n("alice", 5);
    /// assert_eq!(limiter.refund_part("alice", &decision, 2).headline().used(), 3);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn refund_part<K: Key>(&self, key: K, decision: &Decision, units: u64) -> Decision {
        self.now().refund_part(key, decision, units)
    }

    /// Gives back units to every limit without a receipt, the newest first.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("20/hour; 30/day")?;
    /// limiter.charge("alice", 5);
    /// assert_eq!(limiter.refund_n("alice", 2).headline().used(), 3);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn refund_n<K: Key>(&self, key: K, units: u64) -> Decision {
        self.now().refund_n(key, units)
    }

    /// Puts the units in use of every limit at `units`.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("2/hour; 3/day")?;
    /// assert_eq!(limiter.set("alice", 2).headline().remaining(), 0);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn set<K: Key>(&self, key: K, units: u64) -> Decision {
        self.now().set(key, units)
    }

    /// Forgets the key in every limit; true if it was not fresh in one of them.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("2/hour; 3/day")?;
    /// limiter.hit("alice");
    /// assert!(limiter.reset("alice"));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[allow(clippy::must_use_candidate)]
    pub fn reset<K: Key>(&self, key: K) -> bool {
        self.now().reset(key)
    }

    /// Units in use now, of each limit in order.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("2/hour; 3/day")?;
    /// limiter.hit("alice");
    /// assert_eq!(limiter.usage("alice").collect::<Vec<_>>(), [1, 1]);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn usage<K: Key>(&self, key: K) -> impl Iterator<Item = u64> + use<S, K> {
        self.now().usage(key)
    }

    /// Forgets all keys of every limit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("1/hour; 3/day")?;
    /// limiter.hit("alice");
    /// limiter.clear();
    /// assert!(limiter.hit("alice").allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn clear(&self) {
        self.prepared.iter().for_each(|limit| self.store.clear(limit));
    }

    /// This policy, a key and a cost, for [`hit_all`](crate::hit_all).
    ///
    /// See the example of [`hit_all`](crate::hit_all).
    pub fn item<K: Key>(&self, key: K, cost: u64) -> crate::together::Item<'_, S> {
        crate::together::Item::new(&self.store, &self.prepared, key, cost)
    }
}

impl<S: Store> PolicyAt<'_, S> {
    fn each<K: Key>(&self, key: K, op: impl Fn(usize) -> Op) -> Decision {
        let PolicyLimiter { store, prepared, .. } = self.limiter;
        key.with_key(|key| {
            let apply = |(index, limit)| store.apply(limit, key, self.now, op(index));
            of_policy(Decision::from_outcomes(prepared.iter().enumerate().map(apply).collect()))
        })
    }

    /// See [`PolicyLimiter::hit`].
    #[must_use]
    pub fn hit<K: Key>(&self, key: K) -> Decision {
        self.hit_n(key, 1)
    }

    /// See [`PolicyLimiter::hit_n`].
    #[must_use]
    pub fn hit_n<K: Key>(&self, key: K, cost: u64) -> Decision {
        let PolicyLimiter { store, prepared, .. } = self.limiter;
        key.with_key(|key| {
            // A policy has at least one limit; places beyond the last are not used.
            let prepared_at = |index: usize| &prepared[index.min(prepared.len() - 1)];
            let part = |index| Part { prepared: prepared_at(index), key, cost };
            let parts: [Part<'_, S::Prepared>; MAX_LIMITS] = std::array::from_fn(part);
            let mut outcomes = Vec::with_capacity(prepared.len());
            let out = &mut |outcome| outcomes.push(outcome);
            let allowed = store.hit_together(&parts[..prepared.len()], self.now, out);
            of_policy(Decision::of_group(allowed, outcomes))
        })
    }

    /// See [`PolicyLimiter::hit_each`].
    pub fn hit_each<K: Key>(&self, keys: &[K], mut f: impl FnMut(usize, Decision)) {
        keys.iter().enumerate().for_each(|(index, key)| f(index, self.hit(key)));
    }

    /// See [`PolicyLimiter::peek`].
    #[must_use]
    pub fn peek<K: Key>(&self, key: K) -> Decision {
        self.peek_n(key, 1)
    }

    /// See [`PolicyLimiter::peek_n`].
    #[must_use]
    pub fn peek_n<K: Key>(&self, key: K, cost: u64) -> Decision {
        self.each(key, |_| Op::Peek(cost))
    }

    /// See [`PolicyLimiter::take`].
    #[must_use]
    pub fn take<K: Key>(&self, key: K, cost: u64) -> Decision {
        loop {
            let room = self.peek_n(&key, cost).outcomes().iter().map(Outcome::remaining).min();
            let granted = room.unwrap_or_default().min(cost);
            let decision = self.hit_n(&key, granted.max(cost.min(1)));
            // Denied although there was room: another caller was faster.
            if decision.allowed() || granted == 0 {
                return decision;
            }
        }
    }

    /// See [`PolicyLimiter::charge`].
    pub fn charge<K: Key>(&self, key: K, units: u64) -> Decision {
        self.each(key, |_| Op::Charge(units))
    }

    /// See [`PolicyLimiter::refund`].
    pub fn refund<K: Key>(&self, key: K, decision: &Decision) -> Decision {
        self.refund_part(key, decision, u64::MAX)
    }

    /// See [`PolicyLimiter::refund_part`].
    pub fn refund_part<K: Key>(&self, key: K, decision: &Decision, units: u64) -> Decision {
        let outcomes = decision.outcomes();
        self.each(key, |index| match outcomes.get(index) {
            Some(outcome) => Op::Refund(outcome.receipt().at_most(units)),
            None => Op::RefundUnits(0),
        })
    }

    /// See [`PolicyLimiter::refund_n`].
    pub fn refund_n<K: Key>(&self, key: K, units: u64) -> Decision {
        self.each(key, |_| Op::RefundUnits(units))
    }

    /// See [`PolicyLimiter::set`].
    pub fn set<K: Key>(&self, key: K, units: u64) -> Decision {
        self.each(key, |_| Op::Set(units))
    }

    /// See [`PolicyLimiter::reset`].
    #[allow(clippy::must_use_candidate)]
    pub fn reset<K: Key>(&self, key: K) -> bool {
        let PolicyLimiter { store, prepared, .. } = self.limiter;
        key.with_key(|key| {
            let resets = prepared.iter().map(|limit| store.reset(limit, key, self.now));
            resets.fold(false, |any, one| any | one)
        })
    }

    /// See [`PolicyLimiter::usage`].
    pub fn usage<K: Key>(&self, key: K) -> impl Iterator<Item = u64> + use<S, K> {
        let decision = self.peek(key);
        (0..decision.outcomes().len()).map(move |index| decision.outcomes()[index].used())
    }
}

fn of_policy(decision: Option<Decision>) -> Decision {
    let Some(decision) = decision else { unreachable!("a policy has at least one limit") };
    decision
}
