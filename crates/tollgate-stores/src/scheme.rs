//! The schemes of store URLs, and how each kind of store is opened.

use std::pin::Pin;

use tollgate::shared::AnyStore;
use tollgate::{Atomic, Error, Memory};

use crate::Opening;

/// One kind of store and the schemes of its URLs.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Scheme {
    /// The name of the store.
    pub name: &'static str,
    /// The schemes.
    pub schemes: &'static [&'static str],
    /// An example of a URL.
    pub example: &'static str,
    /// The feature of this crate that enables it; `None` if it is always there.
    pub feature: Option<&'static str>,
    /// Whether it was compiled in.
    pub compiled: bool,
    /// Opens a store; `None` if it was not compiled in.
    pub(crate) open: Option<fn(Opening) -> Opened>,
}

type Opened = Pin<Box<dyn Future<Output = Result<AnyStore, Error>> + Send>>;

/// A kind of store with a feature: `$open` opens one.
macro_rules! optional {
    ($feature:tt, [$($scheme:literal),+], $example:literal, $opening:ident => $open:expr) => {
        Scheme {
            name: $feature,
            schemes: &[$($scheme),+],
            example: $example,
            feature: Some($feature),
            compiled: cfg!(feature = $feature),
            #[cfg(feature = $feature)]
            open: Some(|opening| {
                Box::pin(async move {
                    let $opening = opening.with_guard_settings()?;
                    Ok(AnyStore::new($open))
                })
            }),
            #[cfg(not(feature = $feature))]
            open: None,
        }
    };
}

/// A kind of store behind a network. `$prefix` is the method that sets the prefix of the keys.
macro_rules! remote {
    ($feature:tt, [$($scheme:literal),+], $example:literal, $store:path, $prefix:ident) => {
        optional!($feature, [$($scheme),+], $example, opening => {
            use $store as Store;
            let guard = opening.guard(tollgate::shared::Guard::builder());
            let mut builder = Store::builder(&opening.url[..]).guard(guard);
            if let Some(prefix) = &opening.prefix {
                builder = builder.$prefix(&prefix[..]);
            }
            if opening.lazily { builder.connect_later()? } else { builder.connect().await? }
        })
    };
}

/// A kind of store in this process.
macro_rules! in_process {
    ($name:literal, $example:literal, $store:ident) => {
        Scheme {
            name: $name,
            schemes: &[$name],
            example: $example,
            feature: None,
            compiled: true,
            open: Some(|opening| {
                Box::pin(async move {
                    opening.takes_no_address()?;
                    let store = sized!(opening, $store::builder()).build();
                    Ok(opening.in_process(store))
                })
            }),
        }
    };
}

/// The builder of a store in this process with the bounds that were given.
macro_rules! sized {
    ($opening:ident, $builder:expr) => {{
        let mut builder = $builder;
        if let Some(keys) = $opening.max_keys {
            builder = builder.max_keys(keys);
        }
        if let Some(limits) = $opening.max_limits {
            builder = builder.max_limits(limits);
        }
        builder
    }};
}

#[rustfmt::skip]
const KNOWN: &[Scheme] = &[
    in_process!("memory", "memory:", Memory),
    in_process!("atomic", "atomic:", Atomic),
    remote!(
        "redis",
        [
            "redis", "rediss", "valkey", "valkeys", "unix", "redis+unix",
            "redis+cluster", "rediss+cluster", "valkey+cluster", "valkeys+cluster",
            "redis+sentinel", "rediss+sentinel", "valkey+sentinel", "valkeys+sentinel"
        ],
        "redis://host:port/database", tollgate_redis::Redis, prefix
    ),
    remote!("memcached", ["memcached"], "memcached://host:port,host:port", tollgate_memcached::Memcached, prefix),
    remote!("etcd", ["etcd", "etcds"], "etcd://host:port,host:port", tollgate_etcd::Etcd, prefix),
    // In PostgreSQL the prefix is the name of the schema.
    remote!("postgres", ["postgres", "postgresql"], "postgres://user:password@host/database", tollgate_postgres::Postgres, schema),
    optional!("durable", ["durable"], "durable:path", opening => {
        use tollgate_durable::Durable;
        let guard = opening.guard(Durable::usual_guard());
        sized!(opening, Durable::builder(&opening.url[..]).guard(guard)).open()?
    }),
];

/// All kinds of stores that this crate knows of, compiled in or not.
///
/// ```
/// assert!(tollgate_stores::known().iter().any(|scheme| scheme.example == "memory:"));
/// ```
#[must_use]
pub fn known() -> &'static [Scheme] {
    KNOWN
}

/// The scheme of a URL: the text before the first colon.
pub(crate) fn scheme_of(url: &str) -> &str {
    url.split_once(':').map_or(url, |(scheme, _)| scheme)
}
