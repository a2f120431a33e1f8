//! etcd as a store of [`tollgate`]: limits that survive crashes and are never exceeded, at the
//! price of a commit for every hit.
//!
//! ```no_run
//! use tollgate_etcd::Etcd;
//!
//! # async fn example() -> Result<(), tollgate::Error> {
//! let store = Etcd::connect("etcd://127.0.0.1:2379").await?;
//! let limiter = store.limiter("5/hour")?;
//! if !limiter.hit("sign-up from 203.0.113.7").await?.allowed() {
//!     // too many
//! }
//! # Ok(())
//! # }
//! ```
//!
//! This store is for rare and precious limits: sign-ups, password resets, payments. It supports
//! every algorithm and every operation, with the answers of the in-process stores.
//!
//! | address | what |
//! | --- | --- |
//! | `etcd://host:port,host:port` | the members of a cluster, etcd 3.4 or newer, or some of them; the port is 2379 unless it says otherwise |
//! | `etcds://…`, or `?tls` behind it | the same with TLS |
//! | `etcd://user:password@…` | with a login |
//!
//! # What a hit costs
//!
//! A hit is one transaction, which is on the disks of a majority before the answer comes. It
//! succeeds if the key still has the revision that this process saw last. If another process has
//! changed the key, the first transaction returns the new value and a second is needed. A new key
//! takes one transaction too. A denied hit is a read without a commit, and needs no request once
//! its denial is remembered. With a key of 60 bytes (prefix, namespace and limit included) a hit
//! sends about 250 bytes and receives 70, besides the overhead of HTTP/2. Calls that wait for one
//! key in this process are decided in one transaction, so many callers on one key are many times as
//! fast as one.
//!
//! Keys expire with leases that they share. Now and then (after a minute at the earliest, or 10,000
//! keys) a new one is granted, which is one more commit for the hit that needs it.
//!
//! # Whose clock
//!
//! The clock is this machine's: etcd does not reveal its own. All machines follow the clock that is
//! furthest ahead, so each gets its share. A clock that is `s` ahead gets what the limit gives in
//! `s` too early, once. A state that was written more than [`max_skew`](EtcdBuilder::max_skew)
//! ahead of the local clock is an error, not a decision.
//!
//! # What can be lost
//!
//! An answered hit is never forgotten, whatever crashes, as long as a majority of the members keeps
//! its disks. Without a majority there are no decisions, and the rule of the limiter applies: see
//! [`OnFailure`](tollgate::shared::OnFailure).
//!
//! The messages are written by hand: the build needs no `protoc`.

mod builder;
mod cells;
mod connection;
mod failure;
mod leases;
mod members;
mod messages;
mod target;

pub use builder::EtcdBuilder;

use tollgate::{Error, ErrorKind, Key, Limit, OwnedKey};
use tollgate_cas::{Cas, Cells};

use cells::EtcdCells;

/// An etcd cluster. A handle: clones share one connection.
///
/// See [the crate](crate) for an example and the forms of addresses.
#[derive(Clone, Debug)]
pub struct Etcd(Cas<EtcdCells>);

tollgate_cas::as_store!(Etcd, EtcdCells);

impl Etcd {
    /// Connects with the default settings.
    ///
    /// # Errors
    /// When the address is not valid, or no member can be reached.
    ///
    /// See the example of [the crate](crate).
    pub async fn connect(url: impl Into<String>) -> Result<Etcd, Error> {
        Etcd::builder(url).connect().await
    }

    /// A builder with other settings.
    ///
    /// See the example of [`EtcdBuilder`].
    pub fn builder(url: impl Into<String>) -> EtcdBuilder {
        EtcdBuilder::new(url.into())
    }

    /// The key in etcd of a subject of a limit, for use with `etcdctl`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::Error> {
    /// let store = tollgate_etcd::Etcd::builder("etcd://127.0.0.1").connect_later()?;
    /// let key = store.key_of("shop", "5/hour", "alice")?;
    /// assert!(key.starts_with(b"tollgate/") && key.ends_with(b"alice"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the limit is not valid.
    pub fn key_of<L>(&self, namespace: &str, limit: L, subject: impl Key) -> Result<Vec<u8>, Error>
    where
        L: TryInto<Limit>,
        Error: From<L::Error>,
    {
        let (cells, limit) = (self.0.cells(), limit.try_into()?);
        let place = cells.place(namespace, Some(&limit));
        Ok(cells.name(&place, OwnedKey::new(&subject).as_key_ref()))
    }

    /// Whether the cluster can be asked; nothing is executed.
    async fn reachable(&self) -> Result<(), Error> {
        self.0.cells().check().await.map_err(|error| match error.kind() {
            ErrorKind::Lost => Error::unavailable(error.detail()),
            _ => error,
        })
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../../guides/etcd.md")]
mod guide {}
