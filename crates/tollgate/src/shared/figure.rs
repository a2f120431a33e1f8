//! The figures that a store reports about itself.

use std::time::Duration;

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
    /// The other nodes of the fleet, where nodes know each other.
    pub nodes: Vec<FleetNode>,
}

/// Another node of the fleet of a store. Its name may tell hosts and ports, so it is for operators
/// alone.
///
/// ```
/// use std::time::Duration;
/// use tollgate::shared::FleetNode;
/// let node = FleetNode::new("host:8080", Duration::from_secs(1), false);
/// assert!(!node.is_missing);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetNode {
    /// The name of the node, or a number if it has none.
    pub name: String,
    /// The time since the last message of the node.
    pub silence: Duration,
    /// Whether it has been silent for too long.
    pub is_missing: bool,
}

impl FleetNode {
    /// A node.
    ///
    /// See the example of [`FleetNode`].
    pub fn new(name: impl Into<String>, silence: Duration, is_missing: bool) -> FleetNode {
        FleetNode { name: name.into(), silence, is_missing }
    }
}
