//! A macro for stores that wrap a [`Cas`](crate::Cas) in a type of their own.

/// Implements [`SharedStore`](tollgate::shared::SharedStore) for a struct around a
/// [`Cas`](crate::Cas), such as `struct Memcached(Cas<Servers>)`, and adds `limiter`, `limiter_in`
/// and `clear_namespace`. The struct can then have its own `connect`.
///
/// ```
/// use tollgate_cas::{Cas, Table};
///
/// /// A store in this process.
/// #[derive(Clone, Debug)]
/// pub struct Mine(Cas<Table<true>>);
///
/// tollgate_cas::as_store!(Mine, Table<true>);
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::Error> {
/// let store = Mine(Cas::builder(Table::default()).build()?);
/// assert!(store.limiter("10/second")?.hit("alice").await?.allowed());
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! as_store {
    ($store:ident, $cells:ty) => {
        tollgate::limiters!($store);

        impl $store {
            /// Deletes all keys of all limits in a namespace.
            ///
            /// # Errors
            /// When the store does not answer. Some keys may have been deleted.
            pub async fn clear_namespace(&self, namespace: &str) -> Result<(), tollgate::Error> {
                self.0.clear_namespace(namespace).await
            }
        }

        impl tollgate::shared::SharedStore for $store {
            type Prepared = $crate::Prepared;

            fn prepare(
                &self,
                namespace: &str,
                limit: &tollgate::Limit,
            ) -> Result<$crate::Prepared, tollgate::Error> {
                self.0.prepare(namespace, limit)
            }

            fn ask_each(
                &self,
                asks: &[tollgate::shared::Ask<'_, $crate::Prepared>],
                at: Option<tollgate::Timestamp>,
                deadline: std::time::Duration,
            ) -> impl Future<Output = Result<Vec<tollgate::Outcome>, tollgate::Error>> + Send + use<>
            {
                self.0.ask_each(asks, at, deadline)
            }

            fn ask_together(
                &self,
                hits: &[tollgate::shared::HitItem<'_, $crate::Prepared>],
                at: Option<tollgate::Timestamp>,
                deadline: std::time::Duration,
            ) -> impl Future<Output = Result<Vec<tollgate::Outcome>, tollgate::Error>> + Send + use<>
            {
                self.0.ask_together(hits, at, deadline)
            }

            fn clear(
                &self,
                prepared: &$crate::Prepared,
            ) -> impl Future<Output = Result<(), tollgate::Error>> + Send + use<> {
                self.0.clear(prepared)
            }

            fn guard(&self) -> &tollgate::shared::Guard {
                self.0.guard()
            }

            fn lane(&self, prepared: &$crate::Prepared, key: tollgate::KeyRef<'_>) -> usize {
                self.0.lane(prepared, key)
            }

            fn check(
                &self,
            ) -> impl Future<Output = Result<(), tollgate::Error>> + Send + use<> {
                self.0.check()
            }

            fn report(&self) -> tollgate::shared::StoreReport {
                self.0.report()
            }
        }

        const _: fn($crate::Cas<$cells>) -> $store = $store;
    };
}
