//! One rule.

use std::time::Duration;

use tollgate::shared::OnFailure;
use tollgate::{Limit, LimitBuilder, LimitError, Policy};

use super::{EnvoyOptions, Patterns, SourceLocation};

/// A named limit, and other treatment for some keys.
///
/// If a key has several parts, patterns are compared with the last one. For a descriptor that is
/// the value of its last entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The name in metrics, headers and the identity of the counters: the quota can change and the
    /// counts stay.
    pub name: String,
    /// The treatment of keys that no pattern matches.
    pub treatment: Treatment,
    /// The treatment of keys that match a pattern.
    pub keys: Patterns<Treatment>,
    /// A shadow rule decides and counts, but never denies.
    pub shadow: bool,
    /// The units that a hit of cost 1 takes.
    pub cost: u64,
    /// The units for keys that match a pattern.
    pub costs: Patterns<u64>,
    /// The answer without the store. Overrides the default of all rules.
    pub on_failure: Option<OnFailure>,
    /// The deadline of the store. Overrides the default of all rules.
    pub deadline: Option<Duration>,
    /// Options that only rules of domains have.
    pub envoy: EnvoyOptions,
    /// The place of the rule in its file.
    pub location: SourceLocation,
}

/// The treatment of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Treatment {
    /// The key is limited.
    Limited(Policy),
    /// Always allowed, never counted.
    Exempt,
    /// Always denied, never counted.
    Blocked,
}

impl Rule {
    /// A rule without options.
    pub fn new(name: impl Into<String>, policy: Policy) -> Rule {
        Rule::treating(name, Treatment::Limited(policy))
    }

    /// A rule with any treatment, also one without a limit.
    pub fn treating(name: impl Into<String>, treatment: Treatment) -> Rule {
        Rule {
            name: name.into(),
            treatment,
            keys: Patterns::default(),
            shadow: false,
            cost: 1,
            costs: Patterns::default(),
            on_failure: None,
            deadline: None,
            envoy: EnvoyOptions::default(),
            location: SourceLocation::default(),
        }
    }

    /// The policy with the name of this rule in every limit that has none, so that a quota can
    /// change and the counts stay.
    ///
    /// # Errors
    /// When the name is too long, or two limits would share a counter.
    pub fn named(&self, policy: &Policy) -> Result<Policy, LimitError> {
        let limit = |limit: &Limit| match limit.name() {
            Some(_) => Ok(limit.clone()),
            None => LimitBuilder::from(limit.clone()).name(&self.name[..]).build(),
        };
        Policy::new(policy.limits().iter().map(limit).collect::<Result<Vec<_>, _>>()?)
    }
}
