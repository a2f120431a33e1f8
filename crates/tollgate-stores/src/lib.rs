//! Stores by URL.
//!
//! ```
//! # fn main() -> Result<(), tollgate::Error> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use tollgate::shared::SharedLimiter;
//!
//! let store = tollgate_stores::open("memory:").await?;
//! let limiter = SharedLimiter::new(&store, "", "10/second")?;
//! assert!(limiter.hit("user:42").await?.allowed());
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! | URL | store |
//! | --- | --- |
//! | `memory:` | [`Memory`](tollgate::Memory): in this process, with keys |
//! | `atomic:` | [`Atomic`](tollgate::Atomic): in this process, without locks; no moving windows |
//! | `redis://host:port/database`, `rediss://`, `unix://`, `valkey://`, `redis+cluster://`, `redis+sentinel://` | `tollgate-redis`, feature `redis` |
//! | `memcached://host:port,host:port` | `tollgate-memcached`, feature `memcached` |
//! | `etcd://host:port,host:port`, `etcds://` | `tollgate-etcd`, feature `etcd` |
//! | `postgres://user:password@host/database` | `tollgate-postgres`, feature `postgres` |
//! | `durable:path?level=reserve` | `tollgate-durable`, feature `durable` |
//! | `leased+` in front of any of these | `tollgate-cluster`, feature `cluster`: allotments of it, spent without a round trip; see [`Opening`] |
//! | `replicated+nats://host:port`, `replicated+redis://host:port` | the same: counters that nodes tell each other |
//!
//! A store that was not compiled in is an error that names the feature to enable. An unknown scheme
//! is an error that lists the known ones.

#[cfg(feature = "cluster")]
mod cluster;
mod open;
mod scheme;
mod settings;

pub use open::{Opening, open};
pub use scheme::{Scheme, known};

#[cfg(test)]
mod tests;
