//! A check whether a store can be written to.

use std::future::Future;
use std::time::Duration;

use super::{Ask, SharedStore};
use crate::algorithm::Op;
use crate::error::Error;
use crate::key::Key;
use crate::limit::{Algorithm, Limit};

/// The namespace of the key that is charged. It begins with `~`, which is not permitted in the
/// namespace of a server's rules.
const NAMESPACE: &str = "~check";

/// A quota so large that it is never reached, because a denied hit would not test writing.
const QUOTA: u64 = 1_000_000_000;
const PERIOD: Duration = Duration::from_secs(3600);

/// Charges one unit to a key that no limiter uses. Stores that wait use it for
/// [`SharedStore::check`].
///
/// ```
/// # use tollgate::Memory;
/// # use tollgate::shared::{InProcess, try_write};
/// # async fn example() -> Result<(), tollgate::Error> {
/// try_write(&InProcess::new(Memory::new())).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails if the store does not return a decision.
pub fn try_write<S: SharedStore>(
    store: &S,
) -> impl Future<Output = Result<(), Error>> + Send + use<S> {
    let limit = Limit::new(QUOTA, PERIOD).algorithm(Algorithm::FixedWindow).build();
    let prepared = limit.map_err(Error::from).and_then(|limit| store.prepare(NAMESPACE, &limit));
    let asked = prepared.map(|prepared| {
        "check".with_key(|key| {
            let ask = Ask { prepared: &prepared, key, op: Op::Hit(1) };
            store.ask_each(&[ask], None, store.guard().deadline())
        })
    });
    async move { asked?.await.map(drop) }
}
