//! Holds on shared stores, as users see them.

use std::sync::Arc;
use std::time::Duration;

use super::asking::counter;
use super::{Ask, Guard, SharedStore};
use crate::algorithm::Op;
use crate::decision::Decision;
use crate::error::Error;
use crate::hold::draft::Draft;
use crate::hold::{HoldCall, HoldId, HoldItem, HoldReply};
use crate::key::{Key, OwnedKey};
use crate::limit::Limit;
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::time::Timestamp;

/// Limits on a shared store, prepared for holds. It has the same calls as
/// [`Holds`](crate::hold::Holds), but they return futures and may fail.
///
/// A store that does not answer is an error: a hold is never answered by a fallback.
///
/// ```
/// use tollgate::Memory;
/// use tollgate::shared::{InProcess, SharedHolds, SharedReserved};
///
/// # async fn example() -> Result<(), tollgate::Error> {
/// let tokens = SharedHolds::new(&InProcess::new(Memory::new()), "", "100000/minute")?;
/// if let SharedReserved::Open(hold) = tokens.reserve("user:42", 4_000).await? {
///     hold.settle(1_250).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SharedHolds<S: SharedStore> {
    caller: Caller<S>,
    policy: Arc<Policy>,
    prepared: Box<[S::Prepared]>,
}

/// A store with the namespace and the deadline of calls.
#[derive(Clone, Debug)]
struct Caller<S> {
    store: S,
    namespace: Arc<str>,
    deadline: Duration,
    at: Option<Timestamp>,
}

/// Drops the denials that are remembered for the keys of a hold when the call ends, even if its
/// future is dropped: a settlement may have given units back.
struct ForgetKeys<'a> {
    guard: &'a Guard,
    namespace: &'a str,
    /// `None` if the items are not known in this process.
    items: Option<&'a [HoldItem]>,
}

impl Drop for ForgetKeys<'_> {
    fn drop(&mut self) {
        let denials = &self.guard.denials;
        if !denials.any() {
            return;
        }
        let Some(items) = self.items else { return denials.clear() };
        for item in items {
            let counter = |limit: &Limit| counter(self.namespace, limit);
            let counters: Vec<u64> = item.policy.limits().iter().map(counter).collect();
            denials.forget(item.key.as_key_ref(), &counters);
        }
    }
}

impl<S: SharedStore> Caller<S> {
    async fn call(
        &self,
        id: &HoldId,
        call: &HoldCall,
        lane: usize,
        items: Option<&[HoldItem]>,
    ) -> Result<HoldReply, Error> {
        call.check()?;
        let guard = self.store.guard();
        let _forget = ForgetKeys { guard, namespace: &self.namespace, items };
        let begin = |deadline| self.store.hold(&self.namespace, id, call, self.at, deadline);
        guard.call(lane, self.deadline, begin).await
    }
}

impl<S: SharedStore> SharedHolds<S> {
    /// Prepares limits for holds, in a namespace.
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
        Ok(SharedHolds {
            prepared: prepared.collect::<Result<_, _>>()?,
            policy: Arc::new(policy),
            caller: Caller {
                store: store.clone(),
                namespace: namespace.into(),
                deadline: store.guard().deadline(),
                at: None,
            },
        })
    }

    /// Sets how long a call may take, instead of the deadline of the store's [`Guard`].
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.caller.deadline = deadline;
        self
    }

    /// Uses the given time instead of the store's time, for tests.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.caller.at = Some(now);
        self
    }

    /// Returns the limits as a policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// See [`Holds::reserve`](crate::hold::Holds::reserve).
    ///
    /// # Errors
    /// Fails if a value is not valid, the store does not answer, or it is at its bound.
    pub async fn reserve<K: Key>(&self, key: K, units: u64) -> Result<SharedReserved<S>, Error> {
        self.request(key, units).reserve().await
    }

    /// See [`Holds::request`](crate::hold::Holds::request).
    pub fn request<K: Key>(&self, key: K, units: u64) -> SharedHoldRequest<S> {
        let draft = Draft::new(&self.caller.namespace, &self.policy, &key, units);
        let lane = key.with_key(|key| self.caller.store.lane(&self.prepared[0], key));
        SharedHoldRequest { caller: self.caller.clone(), draft, lane }
    }

    /// Returns the handle of a hold that was opened before, perhaps by another process. It does not
    /// ask the store. Each call through such a handle drops all denials that this process
    /// remembers of the store, because the keys of the hold are not known here.
    #[must_use]
    pub fn hold(&self, id: HoldId) -> SharedHold<S> {
        SharedHold { caller: self.caller.clone(), id, lane: 0, opened: None }
    }

    /// Returns whether these units would be granted now, and changes nothing.
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn peek<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        let outcomes = self.ask(&key, Op::Peek(units)).await?;
        Decision::from_outcomes(outcomes)
            .ok_or_else(|| Error::store("the store returned no outcome", false))
    }

    /// Returns the units in use of the limit that has the most of them in use.
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn usage<K: Key>(&self, key: K) -> Result<u64, Error> {
        let outcomes = self.ask(&key, Op::Peek(0)).await?;
        Ok(outcomes.iter().map(Outcome::used).max().unwrap_or_default())
    }

    /// See [`Holds::reset`](crate::hold::Holds::reset).
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn reset<K: Key>(&self, key: K) -> Result<bool, Error> {
        let items = [HoldItem {
            policy: Arc::clone(&self.policy),
            key: OwnedKey::new(&key),
            units: 0,
            clamp: false,
        }];
        let (guard, namespace) = (self.caller.store.guard(), &*self.caller.namespace);
        let _forget = ForgetKeys { guard, namespace, items: Some(&items) };
        let outcomes = self.ask(&key, Op::Reset).await?;
        Ok(outcomes.iter().any(Outcome::allowed))
    }

    async fn ask<K: Key>(&self, key: &K, op: Op) -> Result<Vec<Outcome>, Error> {
        let key = OwnedKey::new(key);
        let Caller { store, deadline, at, .. } = &self.caller;
        let lane = store.lane(&self.prepared[0], key.as_key_ref());
        let ask = |prepared| Ask { prepared, key: key.as_key_ref(), op };
        let asks: Vec<_> = self.prepared.iter().map(ask).collect();
        let begin = |deadline| store.ask_each(&asks, *at, deadline);
        store.guard().call(lane, *deadline, begin).await
    }
}

/// A request for a hold: see [`SharedHolds::request`].
#[derive(Debug)]
#[must_use = "a request has no effect until `reserve` is called"]
pub struct SharedHoldRequest<S: SharedStore> {
    caller: Caller<S>,
    draft: Draft,
    lane: usize,
}

impl<S: SharedStore> SharedHoldRequest<S> {
    /// Adds an item: another limit, or another key.
    pub fn and<K: Key>(mut self, other: &SharedHolds<S>, key: K, units: u64) -> Self {
        let same = std::ptr::eq(self.caller.store.guard(), other.caller.store.guard());
        self.draft.add(same, &other.caller.namespace, &other.policy, &key, units);
        self
    }

    /// Lowers the units of the latest item to the smallest capacity of its limits if they exceed
    /// it.
    pub fn clamp(mut self) -> Self {
        self.draft.clamp();
        self
    }

    /// Sets the time until the deadline, from 1 second to 24 hours.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.draft.ttl = Some(ttl);
        self
    }

    /// Sets the id, of 1 to 128 bytes. A request with the id of an open hold charges nothing, so a
    /// caller that got the error [`Lost`](crate::ErrorKind::Lost) can repeat its request.
    pub fn id(mut self, id: &[u8]) -> Self {
        self.draft.id = Some(id.into());
        self
    }

    /// Opens the hold.
    ///
    /// # Errors
    /// Fails if a value is not valid, the store does not answer, or it is at its bound.
    pub async fn reserve(self) -> Result<SharedReserved<S>, Error> {
        let SharedHoldRequest { caller, draft, lane } = self;
        let (_, id, call) = draft.call()?;
        let HoldCall::Reserve { items, .. } = &call else { unreachable!("a draft reserves") };
        let reply = caller.call(&id, &call, lane, Some(items)).await?;
        if !reply.is_open() {
            return Ok(SharedReserved::Refused(reply));
        }
        let opened = Some(Opened { items: items.as_slice().into(), reply });
        Ok(SharedReserved::Open(SharedHold { caller, id, lane, opened }))
    }
}

/// The answer to a reservation on a shared store.
#[derive(Clone, Debug)]
pub enum SharedReserved<S: SharedStore> {
    /// The hold is open.
    Open(SharedHold<S>),
    /// The hold was not opened, and nothing was charged: it was denied, or the id is known and its
    /// hold is not open any more.
    Refused(HoldReply),
}

/// An open hold on a shared store. It stays open until it is settled or its deadline passes;
/// dropping this handle changes nothing.
#[derive(Clone, Debug)]
pub struct SharedHold<S: SharedStore> {
    caller: Caller<S>,
    id: HoldId,
    lane: usize,
    opened: Option<Opened>,
}

/// What this process knows of a hold that it has opened.
#[derive(Clone, Debug)]
struct Opened {
    items: Arc<[HoldItem]>,
    reply: HoldReply,
}

impl<S: SharedStore> SharedHold<S> {
    /// Returns the name of the hold. Its text finds the hold again: see [`SharedHolds::hold`].
    #[must_use]
    pub fn id(&self) -> &HoldId {
        &self.id
    }

    /// Returns the reply that opened the hold. `None` for a handle from [`SharedHolds::hold`].
    #[must_use]
    pub fn opened(&self) -> Option<&HoldReply> {
        self.opened.as_ref().map(|opened| &opened.reply)
    }

    async fn call(&self, call: HoldCall) -> Result<HoldReply, Error> {
        let items = self.opened.as_ref().map(|opened| &*opened.items);
        self.caller.call(&self.id, &call, self.lane, items).await
    }

    /// See [`Hold::grow`](crate::hold::Hold::grow).
    ///
    /// # Errors
    /// Fails if the total is not valid, or the store does not answer.
    pub async fn grow(&self, total: u64) -> Result<HoldReply, Error> {
        self.grow_each([Some(total)]).await
    }

    /// See [`Hold::grow_each`](crate::hold::Hold::grow_each).
    ///
    /// # Errors
    /// Fails if a total is not valid, or the store does not answer.
    pub async fn grow_each(
        &self,
        totals: impl IntoIterator<Item = Option<u64>>,
    ) -> Result<HoldReply, Error> {
        self.call(HoldCall::Grow(totals.into_iter().collect())).await
    }

    /// See [`Hold::settle`](crate::hold::Hold::settle).
    ///
    /// # Errors
    /// Fails if the units are not valid, or the store does not answer.
    pub async fn settle(&self, units: u64) -> Result<HoldReply, Error> {
        self.settle_each([Some(units)]).await
    }

    /// See [`Hold::settle_each`](crate::hold::Hold::settle_each).
    ///
    /// # Errors
    /// Fails if a figure is not valid, or the store does not answer.
    pub async fn settle_each(
        &self,
        figures: impl IntoIterator<Item = Option<u64>>,
    ) -> Result<HoldReply, Error> {
        self.call(HoldCall::Settle(figures.into_iter().collect())).await
    }

    /// See [`Hold::extend`](crate::hold::Hold::extend).
    ///
    /// # Errors
    /// Fails if the time is not from 1 second to 24 hours, or the store does not answer.
    pub async fn extend(&self, ttl: Duration) -> Result<HoldReply, Error> {
        self.call(HoldCall::Extend(Some(ttl))).await
    }

    /// Returns what the store knows of the hold, and changes nothing.
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn look_up(&self) -> Result<HoldReply, Error> {
        self.call(HoldCall::LookUp).await
    }
}
