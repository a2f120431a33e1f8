//! Numbers that a store reports about itself.

/// One number of a store, for its operators: the name in metrics, the help text, and the value.
///
/// ```
/// use tollgate::shared::Figure;
/// let figure = Figure::counter("draws_total", "Draws that were answered.", 3);
/// assert!(!figure.may_fall);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figure {
    /// Lower case, with underscores and the unit; without the prefix of all names.
    pub name: &'static str,
    /// The help text, a sentence.
    pub help: &'static str,
    /// The value.
    pub value: u64,
    /// Whether it may fall: a gauge. Otherwise it counts from the start of the store.
    pub may_fall: bool,
}

impl Figure {
    /// A number that only grows.
    ///
    /// See the example of [`Figure`].
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure { name, help, value, may_fall: false }
    }

    /// A number that rises and falls.
    ///
    /// See the example of [`Figure`].
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure { name, help, value, may_fall: true }
    }
}

/// A store's report on itself, for metrics and for operators who check its health.
///
/// See [`SharedStore::report`](super::SharedStore::report).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// Numbers in addition to the counters of its guard.
    pub figures: Vec<Figure>,
    /// Problems of the store: for example how many nodes of its fleet are missing. They contain no
    /// names and no addresses.
    pub warnings: Vec<String>,
}
