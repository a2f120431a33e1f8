//! Rules: what operators write. Plain data; [`service`](crate::service) puts them on a store.

mod descriptor;
mod envoy;
mod location;
mod pattern;
mod rule;
mod table;

pub use descriptor::Descriptor;
pub use envoy::{EnvoyOptions, Rate, Unit};
pub use location::SourceLocation;
pub use pattern::{Pattern, Patterns};
pub use rule::{Rule, Treatment};
pub use table::Row;

use std::collections::BTreeMap;

/// All rules of a configuration: one set is in force at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleSet {
    /// The rules by namespace and name.
    pub limits: BTreeMap<(String, String), Rule>,
    /// The rules of Envoy's descriptors, by domain.
    pub domains: BTreeMap<String, Vec<Descriptor>>,
}

impl RuleSet {
    /// The number of rules, by name and in domains.
    #[must_use]
    pub fn len(&self) -> usize {
        self.limits.len() + self.domains.values().flatten().map(Descriptor::rules).sum::<usize>()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
