//! The contract of an in-process store.

use crate::algorithm::Op;
use crate::error::Error;
use crate::hold::{HoldCall, HoldId, HoldReply};
use crate::key::{Key, KeyRef};
use crate::limit::Limit;
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// A store that never waits: every call is a plain function call. Its clones share one state and
/// are cheap.
///
/// The answers are those of [`AnyMachine::apply`](crate::algorithm::AnyMachine::apply). A store
/// also obeys these rules:
///
/// - A call on one key is one atomic step. Two calls on one key are decided one after the other,
///   the second on the state that the first one left.
/// - A key that was never seen, or was forgotten, is fresh. A store forgets only states that equal
///   a fresh one, unless the user permits more.
/// - An operation that changes nothing writes nothing. A fresh key gets no entry for a peek or a
///   denial.
/// - Calls with the same namespace, limit identity and key use the same counter. All other calls
///   use different counters.
/// - A store that keeps keys stores them as [`OwnedKey`](crate::OwnedKey) does, so that a bound on
///   their number bounds their bytes.
/// - A store reads its clock only in [`Store::now`], which its callers call.
///
/// ```
/// use tollgate::{Limit, Memory, Store};
///
/// fn first_hit<S: Store>(store: &S) -> Result<bool, tollgate::Error> {
///     let limit = Limit::per_second(1).build()?;
///     let prepared = store.prepare("", &limit)?;
///     let key = tollgate::KeyRef::plain(b"user:42");
///     Ok(store.apply(&prepared, key, store.now(), tollgate::algorithm::Op::Hit(1)).allowed())
/// }
/// assert!(first_hit(&Memory::new())?);
/// # Ok::<(), tollgate::Error>(())
/// ```
pub trait Store: Clone + Send + Sync + 'static {
    /// A limit in the form that this store uses.
    type Prepared: Clone + std::fmt::Debug + Send + Sync + 'static;

    /// Returns the time of the store's clock.
    fn now(&self) -> Timestamp;

    /// Prepares a limit in a namespace for calls.
    ///
    /// # Errors
    /// Fails if this store does not support the limit. The message says why.
    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Self::Prepared, Error>;

    /// Executes one operation on one key.
    fn apply(&self, prepared: &Self::Prepared, key: KeyRef<'_>, now: Timestamp, op: Op) -> Outcome;

    /// Executes [`Op::Hit`], for which a store may have a faster way. `hint` is the result of
    /// [`hint`](Store::hint) for the key.
    #[inline]
    fn hit<K: Key + ?Sized>(
        &self,
        prepared: &Self::Prepared,
        key: &K,
        hint: u64,
        now: Timestamp,
        cost: u64,
    ) -> Outcome {
        let _ = hint;
        key.with_key(|key| self.apply(prepared, key, now, Op::Hit(cost)))
    }

    /// Calls [`hit`](Store::hit) with the time of the store's clock.
    #[inline(always)]
    fn hit_now<K: Key + ?Sized>(&self, prepared: &Self::Prepared, key: &K, cost: u64) -> Outcome {
        let hint = self.hint(prepared, key);
        self.hit(prepared, key, hint, self.now(), cost)
    }

    /// Prepares a hit that follows soon. The store may compute where the key lies and prefetch that
    /// memory, while the caller reads the clock or looks up other keys.
    #[inline]
    fn hint<K: Key + ?Sized>(&self, prepared: &Self::Prepared, key: &K) -> u64 {
        let _ = (prepared, key);
        0
    }

    /// Hits all items or none, as [`hit_together`](crate::algorithm::hit_together) does. The
    /// outcomes have the order of the items. No two items may have the same limit and key.
    fn hit_together(&self, items: &[HitItem<'_, Self::Prepared>], now: Timestamp) -> Vec<Outcome>;

    /// Executes one call on one hold, as one atomic step: see the module [`hold`](crate::hold). The
    /// decision is that of [`decide`](crate::hold::decide).
    ///
    /// # Errors
    /// Fails if a value of the call breaks a rule, or the store is at a bound. The default
    /// implementation refuses all holds.
    fn hold(
        &self,
        namespace: &str,
        id: &HoldId,
        call: &HoldCall,
        now: Timestamp,
    ) -> Result<HoldReply, Error> {
        let _ = (namespace, id, call, now);
        Err(crate::hold::not_supported())
    }

    /// Returns an error if this store cannot keep holds. The message names a store that can.
    ///
    /// # Errors
    /// The default implementation always fails.
    fn keeps_holds(&self) -> Result<(), Error> {
        Err(crate::hold::not_supported())
    }

    /// Forgets all keys of a limit.
    fn clear(&self, prepared: &Self::Prepared);

    /// Returns whether both handles belong to the same store.
    fn same_store(&self, other: &Self) -> bool;
}

/// One of several hits of which all pass or none.
#[derive(Clone, Copy, Debug)]
pub struct HitItem<'a, P> {
    /// The limit.
    pub prepared: &'a P,
    /// The key.
    pub key: KeyRef<'a>,
    /// The cost of the hit.
    pub cost: u64,
}

/// Defines the methods of a store that create limiters, so that users need not import a trait.
macro_rules! limiter_methods {
    ($store:ident) => {
        impl<C: $crate::Clock + 'static> $store<C> {
            /// Creates a limiter on this store from a [`Limit`](crate::Limit), a
            /// [`Policy`](crate::Policy), a builder, a text or a list of limits.
            ///
            /// # Errors
            /// Fails if a limit is not valid, or this store cannot hold it.
            ///
            /// ```
            #[doc = concat!("let store = tollgate::", stringify!($store), "::new();")]
            /// let limiter = store.limiter("10/second burst=20")?;
            /// assert!(limiter.hit("user:42").allowed());
            /// let several = store.limiter("5/second; 100/minute")?;
            /// assert!(several.hit("user:42").allowed());
            /// # Ok::<(), tollgate::Error>(())
            /// ```
            pub fn limiter<P>(&self, policy: P) -> Result<$crate::Limiter<Self>, $crate::Error>
            where
                P: TryInto<$crate::Policy>,
                $crate::Error: From<P::Error>,
            {
                self.limiter_in("", policy)
            }

            /// Creates a limiter in a namespace. The same limit and key have separate counters in
            /// different namespaces.
            ///
            /// # Errors
            /// Fails if a limit is not valid, or this store cannot hold it.
            ///
            /// ```
            #[doc = concat!("let store = tollgate::", stringify!($store), "::new();")]
            /// assert!(store.limiter_in("acme", "1/hour")?.hit("user:42").allowed());
            /// assert!(store.limiter_in("umbrella", "1/hour")?.hit("user:42").allowed());
            /// # Ok::<(), tollgate::Error>(())
            /// ```
            pub fn limiter_in<P>(
                &self,
                namespace: &str,
                policy: P,
            ) -> Result<$crate::Limiter<Self>, $crate::Error>
            where
                P: TryInto<$crate::Policy>,
                $crate::Error: From<P::Error>,
            {
                $crate::Limiter::new(self, namespace, policy)
            }
        }
    };
}
pub(crate) use limiter_methods;
