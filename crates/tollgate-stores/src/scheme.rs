//! The schemes of store URLs.

/// One kind of store and the schemes of its URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

const KNOWN: &[Scheme] = &[
    always("memory", &["memory"], "memory:"),
    always("atomic", &["atomic"], "atomic:"),
    Scheme {
        name: "redis",
        schemes: &[
            "redis",
            "rediss",
            "valkey",
            "valkeys",
            "unix",
            "redis+unix",
            "redis+cluster",
            "rediss+cluster",
            "valkey+cluster",
            "valkeys+cluster",
            "redis+sentinel",
            "rediss+sentinel",
            "valkey+sentinel",
            "valkeys+sentinel",
        ],
        example: "redis://host:port/database",
        feature: Some("redis"),
        compiled: cfg!(feature = "redis"),
    },
    Scheme {
        name: "memcached",
        schemes: &["memcached"],
        example: "memcached://host:port,host:port",
        feature: Some("memcached"),
        compiled: cfg!(feature = "memcached"),
    },
    Scheme {
        name: "etcd",
        schemes: &["etcd", "etcds"],
        example: "etcd://host:port,host:port",
        feature: Some("etcd"),
        compiled: cfg!(feature = "etcd"),
    },
    Scheme {
        name: "postgres",
        schemes: &["postgres", "postgresql"],
        example: "postgres://user:password@host/database",
        feature: Some("postgres"),
        compiled: cfg!(feature = "postgres"),
    },
    Scheme {
        name: "durable",
        schemes: &["durable"],
        example: "durable:path",
        feature: Some("durable"),
        compiled: cfg!(feature = "durable"),
    },
];

const fn always(
    name: &'static str,
    schemes: &'static [&'static str],
    example: &'static str,
) -> Scheme {
    Scheme { name, schemes, example, feature: None, compiled: true }
}

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
