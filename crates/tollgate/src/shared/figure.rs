//! Numbers that a store tells of itself.

/// One number, for who watches a store: its name in metrics, what it says, and the value.
///
/// ```
/// use tollgate::shared::Figure;
/// let figure = Figure::counter("draws_total", "Draws that were answered.", 3);
/// assert!(!figure.may_fall);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figure {
    /// Lower case, with underscores and the unit; without what stands in front of all names.
    pub name: &'static str,
    /// A sentence.
    pub help: &'static str,
    /// The value.
    pub value: u64,
    /// Whether it may fall: a gauge. Otherwise it counts from the start of the store.
    pub may_fall: bool,
}

impl Figure {
    /// One that only grows.
    ///
    /// See the example of [`Figure`].
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure { name, help, value, may_fall: false }
    }

    /// One that rises and falls.
    ///
    /// See the example of [`Figure`].
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure { name, help, value, may_fall: true }
    }
}

/// What a store says of itself: for metrics, and for anybody who looks at its health.
///
/// See [`SharedStore::report`](super::SharedStore::report).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// Numbers beside the counters of its guard.
    pub figures: Vec<Figure>,
    /// What is wrong with the store: for example how many nodes of its fleet are missing. No names,
    /// no addresses.
    pub warnings: Vec<String>,
}
