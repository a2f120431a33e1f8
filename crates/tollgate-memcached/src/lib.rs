//! Memcached as a store of [`tollgate`]: the same limiter across all machines of a service.
//!
//! ```no_run
//! use tollgate::shared::OnFailure;
//! use tollgate_memcached::Memcached;
//!
//! # async fn example() -> Result<(), tollgate::Error> {
//! let store = Memcached::connect("memcached://127.0.0.1:11211").await?;
//! let limiter = store.limiter("10/second burst=20")?.on_failure(OnFailure::Open)?;
//! if !limiter.hit("user:42").await?.allowed() {
//!     // too many requests
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Addresses:
//!
//! | address | what |
//! | --- | --- |
//! | `memcached://host:port` | one server, Memcached 1.6 or newer |
//! | `memcached://host:port,host:port` | several, each with a share of the keys |
//! | `memcached://user:password@host:port` | servers that were started with `-Y` |
//! | `unix:///path/to/socket` | one server on this machine |
//!
//! - **Clock**: the clients'. All machines follow the clock that is furthest ahead, so each gets
//!   its share. A clock that is `s` ahead gets what the limit gives in `s` too early, once. A state
//!   from more than [`max_skew`](MemcachedBuilder::max_skew), 10 seconds, ahead is an error.
//! - **After a crash** everything is lost. A server that starts again is empty: every key that it
//!   held gets its whole limit once more. So does a key that is evicted to make room; the log warns
//!   of evictions.
//! - **Cost of a hit**: one round trip and some 70 bytes besides the name of its key, if this
//!   process was the last to write it; otherwise two round trips and 190 bytes. A policy takes one
//!   round trip for all its limits, if this process was the last to write them; otherwise two.
//!
//! [`tollgate_cas`] describes how a hit is decided, [`tollgate::shared`] what happens when a server
//! does not answer.

mod builder;
mod command;
mod connection;
mod dump;
mod name;
#[doc(hidden)]
pub mod reply;
mod server;
mod servers;
mod target;

pub use builder::MemcachedBuilder;

use tollgate::shared::SharedStore;
use tollgate::{Error, Limit, OwnedKey};
use tollgate_cas::{Cas, Cells};

use servers::Servers;

/// A store on one Memcached server or several. Clones share one connection to each server.
///
/// See [the crate](crate) for an example and the forms of addresses.
#[derive(Clone, Debug)]
pub struct Memcached(Cas<Servers>);

tollgate_cas::as_store!(Memcached, Servers);

impl Memcached {
    /// Connects with the default settings.
    ///
    /// # Errors
    /// When the address is not valid, or a server cannot be reached.
    pub async fn connect(url: impl Into<String>) -> Result<Memcached, Error> {
        Memcached::builder(url).connect().await
    }

    /// A builder with other settings.
    pub fn builder(url: impl Into<String>) -> MemcachedBuilder {
        MemcachedBuilder::new(url.into())
    }

    async fn reachable(&self) -> Result<(), Error> {
        self.0.check().await
    }

    /// The name in Memcached of a key of a limit, to look it up by hand.
    ///
    /// # Errors
    /// When the limit is not valid.
    pub fn key_of<L>(
        &self,
        namespace: &str,
        limit: L,
        key: impl tollgate::Key,
    ) -> Result<Vec<u8>, Error>
    where
        L: TryInto<Limit>,
        Error: From<L::Error>,
    {
        let cells = self.0.cells();
        let place = cells.place(namespace, Some(&limit.try_into()?));
        Ok(cells.name(&place, OwnedKey::new(&key).as_key_ref()))
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../../guides/memcached.md")]
mod guide {}
