//! The contract of an in-process store.

use crate::algorithm::Op;
use crate::error::Error;
use crate::key::{Key, KeyRef};
use crate::limit::Limit;
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// A store that never waits: every call is a plain function call. Handles are cheap to clone and
/// share one state.
///
/// The rules of the contract, besides the answers of
/// [`AnyMachine::apply`](crate::algorithm::AnyMachine::apply):
///
/// - A call on one key is one atomic step. Two callers on one key are decided one after the other,
///   each on the other's result.
/// - A key that was never seen, or was forgotten, is fresh. Only states that equal a fresh one are
///   forgotten, unless the user permitted more.
/// - An operation that changes nothing writes nothing; a fresh key that is only peeked at or denied
///   gets no entry.
/// - The same (namespace, limit identity, key) is the same counter, two different ones never share
///   one.
/// - A store that keeps keys keeps them as [`OwnedKey`](crate::OwnedKey) does, so that a bound on
///   their number bounds their bytes.
/// - It reads no clock except in [`Store::now`], which is for its callers.
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
    /// A limit as this store holds it.
    type Prepared: Clone + std::fmt::Debug + Send + Sync + 'static;

    /// The store's clock.
    fn now(&self) -> Timestamp;

    /// Accepts a limit in a namespace.
    ///
    /// # Errors
    /// When this store cannot hold it; the message says why.
    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Self::Prepared, Error>;

    /// One operation on one key.
    fn apply(&self, prepared: &Self::Prepared, key: KeyRef<'_>, now: Timestamp, op: Op) -> Outcome;

    /// [`Op::Hit`], which a store may execute faster than any operation; `hint` is the result of
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

    /// [`hit`](Store::hit) at the time of the store's clock.
    #[inline(always)]
    fn hit_now<K: Key + ?Sized>(&self, prepared: &Self::Prepared, key: &K, cost: u64) -> Outcome {
        let hint = self.hint(prepared, key);
        self.hit(prepared, key, hint, self.now(), cost)
    }

    /// Called some time before a hit: the store may look up where the key lies and begin to fetch
    /// it, while the clock is read or other keys are looked up.
    #[inline]
    fn hint<K: Key + ?Sized>(&self, prepared: &Self::Prepared, key: &K) -> u64 {
        let _ = (prepared, key);
        0
    }

    /// Hits all or none, as [`hit_together`](crate::algorithm::hit_together) does. The outcomes are
    /// in the order of the items. No two items may have the same limit and key.
    fn hit_together(&self, items: &[HitItem<'_, Self::Prepared>], now: Timestamp) -> Vec<Outcome>;

    /// Forgets all keys of a limit.
    fn clear(&self, prepared: &Self::Prepared);

    /// Whether two handles belong to one store.
    fn same_store(&self, other: &Self) -> bool;
}

/// One hit of several that pass together or not at all.
#[derive(Clone, Copy, Debug)]
pub struct HitItem<'a, P> {
    /// The limit.
    pub prepared: &'a P,
    /// The key.
    pub key: KeyRef<'a>,
    /// The cost of the hit.
    pub cost: u64,
}

/// The methods of a store that make limiters, so that no user needs to import a trait.
macro_rules! limiter_methods {
    ($store:ident) => {
        impl<C: $crate::Clock + 'static> $store<C> {
            /// A limiter on this store: for a [`Limit`](crate::Limit) or a
            /// [`Policy`](crate::Policy), a builder, a text, or a list of limits.
            ///
            /// # Errors
            /// When a limit is not valid, or this store cannot hold it.
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

            /// A limiter in a namespace: the same limit and key in another namespace is another
            /// counter.
            ///
            /// # Errors
            /// When a limit is not valid, or this store cannot hold it.
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
