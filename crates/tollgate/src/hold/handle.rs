//! Holds on in-process stores, as users see them.

use std::sync::Arc;
use std::time::Duration;

use super::draft::Draft;
use super::{HoldCall, HoldId, HoldReply, HoldStatus};
use crate::algorithm::Op;
use crate::decision::Decision;
use crate::error::Error;
use crate::key::Key;
use crate::policy::Policy;
use crate::store::Store;
use crate::time::Timestamp;

/// Limits on a store, prepared for holds. They may contain concurrency limits. The counters are
/// those of a [`Limiter`](crate::Limiter) with the same limits and namespace.
///
/// ```
/// use tollgate::Memory;
/// use tollgate::hold::Reserved;
///
/// let tokens = Memory::new().holds("100000/minute")?;
/// let Reserved::Open(hold) = tokens.reserve("user:42", 4_000)? else { panic!("denied") };
/// hold.settle(1_250)?;
/// assert_eq!(tokens.usage("user:42"), 1_250);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Holds<S: Store> {
    pub(crate) store: S,
    pub(super) namespace: Arc<str>,
    pub(super) policy: Arc<Policy>,
    pub(crate) prepared: Box<[S::Prepared]>,
}

impl<S: Store> Holds<S> {
    /// Prepares limits for holds, in a namespace. The method `holds_in` of a store does the same.
    ///
    /// # Errors
    /// Fails if a limit is not valid, or the store cannot keep holds on it.
    pub fn new<P>(store: &S, namespace: &str, policy: P) -> Result<Self, Error>
    where
        P: TryInto<Policy>,
        Error: From<P::Error>,
    {
        store.keeps_holds()?;
        let policy = policy.try_into()?;
        let prepared = policy.limits().iter().map(|limit| store.prepare(namespace, limit));
        Ok(Holds {
            prepared: prepared.collect::<Result<_, _>>()?,
            store: store.clone(),
            namespace: namespace.into(),
            policy: Arc::new(policy),
        })
    }

    /// Returns the limits as a policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Opens a hold of these units, until its deadline: all limits are charged or none is.
    ///
    /// # Errors
    /// Fails if the units are not valid, or the store is at its bound on open holds. A denial is no
    /// error.
    ///
    /// See the example of [`Holds`].
    pub fn reserve<K: Key>(&self, key: K, units: u64) -> Result<Reserved<S>, Error> {
        self.request(key, units).reserve()
    }

    /// Starts a request for a hold with several items, another deadline or an id of your own.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Memory;
    /// use tollgate::hold::Reserved;
    ///
    /// let store = Memory::new();
    /// let (tokens, slots) = (store.holds("100000/minute")?, store.holds("20 concurrent")?);
    /// let reserved = tokens
    ///     .request("user:42", 4_000)
    ///     .and(&slots, "user:42", 1)
    ///     .ttl(Duration::from_secs(30))
    ///     .reserve()?;
    /// assert!(matches!(reserved, Reserved::Open(_)));
    /// assert_eq!((tokens.usage("user:42"), slots.usage("user:42")), (4_000, 1));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn request<K: Key>(&self, key: K, units: u64) -> HoldRequest<S> {
        let draft = Draft::new(&self.namespace, &self.policy, &key, units);
        HoldRequest { store: self.store.clone(), draft }
    }

    /// Returns the handle of a hold that was opened before, for instance in another request of the
    /// same client. It does not ask the store.
    #[must_use]
    pub fn hold(&self, id: HoldId) -> Hold<S> {
        Hold { store: self.store.clone(), namespace: Arc::clone(&self.namespace), id, opened: None }
    }

    /// Returns whether these units would be granted now, and changes nothing.
    pub fn peek<K: Key>(&self, key: K, units: u64) -> Decision {
        let now = self.store.now();
        let peek =
            |prepared| key.with_key(|key| self.store.apply(prepared, key, now, Op::Peek(units)));
        let outcomes = self.prepared.iter().map(peek).collect();
        let Some(decision) = Decision::from_outcomes(outcomes) else {
            unreachable!("a policy has at least one limit")
        };
        decision
    }

    /// Returns the units in use of the limit that has the most of them in use.
    pub fn usage<K: Key>(&self, key: K) -> u64 {
        let decision = self.peek(key, 0);
        decision.outcomes().iter().map(crate::Outcome::used).max().unwrap_or_default()
    }

    /// Forgets a key: its counts, and all holders of its slots. Their holds stay known, and can no
    /// longer be extended if they had slots. Returns true if the key was not fresh.
    pub fn reset<K: Key>(&self, key: K) -> bool {
        let now = self.store.now();
        let reset = |prepared| {
            key.with_key(|key| self.store.apply(prepared, key, now, Op::Reset)).allowed()
        };
        self.prepared.iter().filter(|prepared| reset(prepared)).count() > 0
    }

    /// Forgets all keys of each limit.
    pub fn clear(&self) {
        self.prepared.iter().for_each(|prepared| self.store.clear(prepared));
    }
}

/// A request for a hold: see [`Holds::request`].
#[derive(Debug)]
#[must_use = "a request has no effect until `reserve` is called"]
pub struct HoldRequest<S: Store> {
    store: S,
    draft: Draft,
}

impl<S: Store> HoldRequest<S> {
    /// Adds an item: another limit, or another key.
    pub fn and<K: Key>(mut self, other: &Holds<S>, key: K, units: u64) -> Self {
        let same = self.store.same_store(&other.store);
        self.draft.add(same, &other.namespace, &other.policy, &key, units);
        self
    }

    /// Lowers the units of the latest item to the smallest capacity of its limits if they exceed
    /// it. Without this, a larger estimate is denied.
    pub fn clamp(mut self) -> Self {
        self.draft.clamp();
        self
    }

    /// Sets the time until the deadline, from 1 second to 24 hours. By default it is the shortest
    /// `hold=` of the limits, else one minute.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.draft.ttl = Some(ttl);
        self
    }

    /// Sets the id, of 1 to 128 bytes. A request with the id of an open hold charges nothing, so a
    /// caller that lost the reply can repeat its request. The default is 128 random bits.
    pub fn id(mut self, id: &[u8]) -> Self {
        self.draft.id = Some(id.into());
        self
    }

    /// Opens the hold.
    ///
    /// # Errors
    /// Fails if a value is not valid, or the store is at its bound on open holds. A denial is no
    /// error.
    pub fn reserve(self) -> Result<Reserved<S>, Error> {
        let now = self.store.now();
        let (namespace, id, call) = self.draft.call()?;
        let reply = self.store.hold(&namespace, &id, &call, now)?;
        if !reply.is_open() {
            return Ok(Reserved::Refused(reply));
        }
        Ok(Reserved::Open(Hold { store: self.store, namespace, id, opened: Some(reply) }))
    }
}

/// The answer to a reservation.
#[derive(Clone, Debug)]
pub enum Reserved<S: Store> {
    /// The hold is open.
    Open(Hold<S>),
    /// The hold was not opened, and nothing was charged: it was denied, or the id is known and its
    /// hold is not open any more.
    Refused(HoldReply),
}

/// An open hold. It stays open until it is settled or its deadline passes; dropping this handle
/// changes nothing.
#[derive(Clone, Debug)]
pub struct Hold<S: Store> {
    store: S,
    namespace: Arc<str>,
    id: HoldId,
    opened: Option<HoldReply>,
}

impl<S: Store> Hold<S> {
    /// Returns the name of the hold. Its text finds the hold again: see [`Holds::hold`].
    #[must_use]
    pub fn id(&self) -> &HoldId {
        &self.id
    }

    /// Returns the reply that opened the hold. `None` for a handle from [`Holds::hold`].
    #[must_use]
    pub fn opened(&self) -> Option<&HoldReply> {
        self.opened.as_ref()
    }

    /// Returns the highest fence of the granted concurrency limits.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.opened.iter().flat_map(|reply| &reply.items).filter_map(|item| item.fence).max()
    }

    /// Returns the deadline with which the hold was opened.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.opened.as_ref()?.deadline
    }

    fn call(&self, call: &HoldCall) -> Result<HoldReply, Error> {
        self.store.hold(&self.namespace, &self.id, call, self.store.now())
    }

    /// Raises the first item to this total. A total that the hold already has changes nothing.
    ///
    /// # Errors
    /// Fails if the total is not valid.
    pub fn grow(&self, total: u64) -> Result<HoldReply, Error> {
        self.grow_each([Some(total)])
    }

    /// Raises several items to these totals, in the order of the items: all or none.
    ///
    /// # Errors
    /// Fails if a total is not valid, or there are more totals than items.
    pub fn grow_each(
        &self,
        totals: impl IntoIterator<Item = Option<u64>>,
    ) -> Result<HoldReply, Error> {
        self.call(&HoldCall::Grow(totals.into_iter().collect()))
    }

    /// States what the first item really took, and ends the hold. The estimates of the other items
    /// stand. All slots are freed.
    ///
    /// # Errors
    /// Fails if the units are not valid.
    pub fn settle(&self, units: u64) -> Result<HoldReply, Error> {
        self.settle_each([Some(units)])
    }

    /// States what each item really took, in the order of the items, and ends the hold. `None` for
    /// an item whose estimate stands.
    ///
    /// # Errors
    /// Fails if a figure is not valid, or there are more figures than items.
    pub fn settle_each(
        &self,
        figures: impl IntoIterator<Item = Option<u64>>,
    ) -> Result<HoldReply, Error> {
        self.call(&HoldCall::Settle(figures.into_iter().collect()))
    }

    /// Sets a new deadline, this long from now.
    ///
    /// # Errors
    /// Fails if the time is not from 1 second to 24 hours.
    pub fn extend(&self, ttl: Duration) -> Result<HoldReply, Error> {
        self.call(&HoldCall::Extend(Some(ttl)))
    }

    /// Returns the status of the hold, and changes nothing.
    ///
    /// # Errors
    /// Fails only if the store does.
    pub fn status(&self) -> Result<HoldStatus, Error> {
        Ok(self.call(&HoldCall::LookUp)?.status)
    }
}
