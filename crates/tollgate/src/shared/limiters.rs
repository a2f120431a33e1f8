//! The methods of a shared store that create limiters.

/// Defines the methods `limiter` and `limiter_in` of a [`SharedStore`](crate::shared::SharedStore),
/// so that its users need not import the trait. The crates of the stores use it.
///
/// ```
/// # use tollgate::shared::InProcess;
/// # mod mine {
/// # use std::{future::Future, time::Duration};
/// # use tollgate::{Outcome, Error, Limit, Memory, Timestamp, shared::{Ask, Guard, HitItem, InProcess, SharedStore}};
/// # #[derive(Clone, Debug)] pub struct Mine(pub InProcess<Memory>);
/// # impl SharedStore for Mine {
/// #     type Prepared = <InProcess<Memory> as SharedStore>::Prepared;
/// #     fn prepare(&self, n: &str, l: &Limit) -> Result<Self::Prepared, Error> { self.0.prepare(n, l) }
/// #     fn ask_each(&self, a: &[Ask<'_, Self::Prepared>], t: Option<Timestamp>, d: Duration) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> { self.0.ask_each(a, t, d) }
/// #     fn ask_together(&self, h: &[HitItem<'_, Self::Prepared>], t: Option<Timestamp>, d: Duration) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> { self.0.ask_together(h, t, d) }
/// #     fn clear(&self, p: &Self::Prepared) -> impl Future<Output = Result<(), Error>> + Send + use<> { self.0.clear(p) }
/// #     fn guard(&self) -> &Guard { self.0.guard() }
/// # }
/// tollgate::limiters!(Mine);
/// # }
/// # use mine::Mine;
///
/// let limiter = Mine(InProcess::new(tollgate::Memory::new())).limiter("10/second")?;
/// # Ok::<(), tollgate::Error>(())
/// ```
#[macro_export]
macro_rules! limiters {
    ($store:ident$(<$parameter:ident: $bound:path>)?) => {
        impl$(<$parameter: $bound>)? $store$(<$parameter>)? {
            /// Creates a limiter on this store from a [`Limit`]($crate::Limit), a
            /// [`Policy`]($crate::Policy), a builder, a text or a list of limits.
            ///
            /// # Errors
            /// Fails if a limit is not valid, or the store does not support it.
            pub fn limiter<P>(&self, policy: P) -> Result<$crate::shared::SharedLimiter<Self>, $crate::Error>
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
            /// Fails if [`limiter`](Self::limiter) does.
            pub fn limiter_in<P>(
                &self,
                namespace: &str,
                policy: P,
            ) -> Result<$crate::shared::SharedLimiter<Self>, $crate::Error>
            where
                P: TryInto<$crate::Policy>,
                $crate::Error: From<P::Error>,
            {
                $crate::shared::SharedLimiter::new(self, namespace, policy)
            }
        }
    };
}
