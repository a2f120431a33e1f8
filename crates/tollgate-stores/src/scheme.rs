//! What a URL can begin with.

/// One kind of store, by the beginnings of its URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheme {
    /// What it is called.
    pub name: &'static str,
    /// What its URLs begin with.
    pub schemes: &'static [&'static str],
    /// How one looks.
    pub example: &'static str,
    /// The feature of this crate that has it, unless it is always there.
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

/// What a URL begins with, in front of the first colon.
pub(crate) fn scheme_of(url: &str) -> &str {
    url.split_once(':').map_or(url, |(scheme, _)| scheme)
}
