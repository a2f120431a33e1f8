//! What a URL can begin with.

/// One kind of store, by the beginnings of its URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheme {
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
    Scheme { schemes: &["memory"], example: "memory:", feature: None, compiled: true },
    Scheme { schemes: &["atomic"], example: "atomic:", feature: None, compiled: true },
    Scheme {
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

/// What a URL begins with, in front of the first colon.
pub(crate) fn scheme_of(url: &str) -> &str {
    url.split_once(':').map_or(url, |(scheme, _)| scheme)
}
