//! What users hold for several limits on one key: a store and a policy.

use crate::algorithm::Op;
use crate::decision::Decision;
use crate::error::Error;
use crate::key::{Key, KeyRef};
use crate::limiter::Limiter;
use crate::policy::{MAX_LIMITS, Policy};
use crate::policy_decision::PolicyDecision;
use crate::store::{Part, Store};
use crate::time::Timestamp;

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
        let Limiter { store, prepared, limit, .. } = limiter;
        PolicyLimiter { store, prepared: Box::new([prepared]), policy: limit.into() }
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
        Ok(PolicyLimiter { store: store.clone(), prepared, policy })
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

    /// May this key do one more now? Charges every limit one unit if all agree.
    ///
    /// See the example of [`PolicyLimiter`].
    pub fn hit<K: Key>(&self, key: K) -> PolicyDecision {
        self.hit_n(key, 1)
    }

    /// May this key do something of that cost now?
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("9/second; 3/minute")?;
    /// assert!(!limiter.hit_n("alice", 4).allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn hit_n<K: Key>(&self, key: K, cost: u64) -> PolicyDecision {
        self.hit_at(key, cost, self.store.now())
    }

    /// [`hit_n`](PolicyLimiter::hit_n) at a given time.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("1/second; 3/minute")?;
    /// assert!(limiter.hit_at("alice", 1, tollgate::Timestamp::from_micros(5)).allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn hit_at<K: Key>(&self, key: K, cost: u64, now: Timestamp) -> PolicyDecision {
        key.with_key(|key| {
            let part = |index: usize| Part {
                // A policy has at least one limit; places beyond the last are not used.
                prepared: &self.prepared[index.min(self.prepared.len() - 1)],
                key,
                cost,
            };
            let parts: [Part<'_, S::Prepared>; MAX_LIMITS] = std::array::from_fn(part);
            collect(|out| {
                self.store.hit_together(&parts[..self.prepared.len()], now, out);
            })
        })
    }

    /// What a hit would get, without charging or pushing anything.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("2/second; 3/minute")?;
    /// assert_eq!(limiter.peek("alice").headline().used(), 0);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn peek<K: Key>(&self, key: K) -> PolicyDecision {
        self.peek_n(key, 1)
    }

    /// What a hit of that cost would get.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("2/second; 3/minute")?;
    /// assert!(!limiter.peek_n("alice", 3).allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn peek_n<K: Key>(&self, key: K, cost: u64) -> PolicyDecision {
        self.each(key, |_| Op::Peek(cost))
    }

    /// Charges every limit without asking.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("2/hour; 3/day")?;
    /// assert_eq!(limiter.charge("alice", 5).headline().used(), 5);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn charge<K: Key>(&self, key: K, units: u64) -> PolicyDecision {
        self.each(key, |_| Op::Charge(units))
    }

    /// Gives back what a decision of this policy charged.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("2/hour; 3/day")?;
    /// let decision = limiter.hit("alice");
    /// assert_eq!(limiter.refund("alice", &decision).headline().used(), 0);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn refund<K: Key>(&self, key: K, decision: &PolicyDecision) -> PolicyDecision {
        self.refund_part(key, decision, u64::MAX)
    }

    /// Gives back at most that many of the units that a decision of this policy charged to each limit.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("20/hour; 30/day")?;
    /// let decision = limiter.hit_n("alice", 5);
    /// assert_eq!(limiter.refund_part("alice", &decision, 2).headline().used(), 3);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn refund_part<K: Key>(
        &self,
        key: K,
        decision: &PolicyDecision,
        units: u64,
    ) -> PolicyDecision {
        let receipts = decision.outcomes();
        self.each(key, |index| match receipts.get(index) {
            Some(outcome) => Op::Refund(outcome.receipt().at_most(units)),
            None => Op::RefundUnits(0),
        })
    }

    /// Gives back units to every limit without a receipt, as if they had been charged now.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("20/hour; 30/day")?;
    /// limiter.charge("alice", 5);
    /// assert_eq!(limiter.refund_n("alice", 2).headline().used(), 3);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn refund_n<K: Key>(&self, key: K, units: u64) -> PolicyDecision {
        self.each(key, |_| Op::RefundUnits(units))
    }

    /// Puts the units in use of every limit at `units`.
    ///
    /// ```
    /// let limiter = tollgate::Memory::new().policy_limiter("2/hour; 3/day")?;
    /// assert_eq!(limiter.set("alice", 2).headline().remaining(), 0);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn set<K: Key>(&self, key: K, units: u64) -> PolicyDecision {
        self.each(key, |_| Op::Set(units))
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
        let now = self.store.now();
        let reset = |key: KeyRef<'_>| {
            let resets = self.prepared.iter().map(|limit| self.store.reset(limit, key, now));
            resets.fold(false, |any, one| any | one)
        };
        key.with_key(reset)
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
        let decision = self.peek(key);
        (0..decision.outcomes().len()).map(move |index| decision.outcomes()[index].used())
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

    fn each<K: Key>(&self, key: K, op: impl Fn(usize) -> Op) -> PolicyDecision {
        let now = self.store.now();
        key.with_key(|key| {
            collect(|out| {
                for (index, limit) in self.prepared.iter().enumerate() {
                    out(self.store.apply(limit, key, now, op(index)));
                }
            })
        })
    }
}

/// The decisions that `f` hands out, at least one, as those of a policy.
fn collect(f: impl FnOnce(&mut dyn FnMut(Decision))) -> PolicyDecision {
    let mut all: Option<PolicyDecision> = None;
    f(&mut |decision| match &mut all {
        Some(all) => all.push(decision),
        None => all = Some(PolicyDecision::new(decision)),
    });
    let Some(all) = all else { unreachable!("a policy has at least one limit") };
    all
}
