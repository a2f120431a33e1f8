//! The figures that a store reports about itself.

/// A figure that a store reports to operators: its name in metrics, its help text and its value.
///
/// ```
/// use tollgate::shared::Figure;
/// let figure = Figure::counter("draws_total", "Draws that were answered.", 3);
/// assert!(!figure.may_fall);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figure {
    /// The name in metrics: lower case, with underscores and the unit, but without the common
    /// prefix of all metrics.
    pub name: &'static str,
    /// The help text in metrics, a full sentence.
    pub help: &'static str,
    /// The value.
    pub value: u64,
    /// Whether the value may fall (a gauge). Otherwise it is a counter that began when the store
    /// started.
    pub may_fall: bool,
}

impl Figure {
    /// Creates a figure that only grows.
    ///
    /// See the example of [`Figure`].
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure { name, help, value, may_fall: false }
    }

    /// Creates a figure that rises and falls.
    ///
    /// See the example of [`Figure`].
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure { name, help, value, may_fall: true }
    }
}

/// The report of a store on itself, for metrics and for operators who check its health.
///
/// See [`SharedStore::report`](super::SharedStore::report).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// The figures of the store, in addition to the counters of its guard.
    pub figures: Vec<Figure>,
    /// The problems of the store, for example how many nodes are missing. They contain no names and
    /// no addresses.
    pub warnings: Vec<String>,
}
