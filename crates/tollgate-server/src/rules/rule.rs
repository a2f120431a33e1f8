//! One rule.

use std::time::Duration;

use tollgate::shared::OnFailure;
use tollgate::{Limit, LimitBuilder, LimitError, Policy};

use super::{EnvoyOptions, Patterns, SourceLocation};

/// A limit with a name, and what operators want to be different for some keys.
///
/// Where a key has several parts, patterns are for the last one: for a descriptor that is the value
/// of its last entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// In metrics and headers, and in the identity of its counters: a quota can change and the
    /// counts stay.
    pub name: String,
    /// What most keys get.
    pub treatment: Treatment,
    /// What some keys get instead.
    pub keys: Patterns<Treatment>,
    /// Decides and counts, and never refuses.
    pub shadow: bool,
    /// How many units one hit of cost 1 takes.
    pub cost: u64,
    /// How many it takes for some keys instead.
    pub costs: Patterns<u64>,
    /// What to answer when the store does not, instead of what holds for all rules.
    pub on_failure: Option<OnFailure>,
    /// How long the store may take, instead of what holds for all rules.
    pub deadline: Option<Duration>,
    /// What only rules of domains say.
    pub envoy: EnvoyOptions,
    /// Where it is written.
    pub location: SourceLocation,
}

/// What happens to a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Treatment {
    /// It is limited.
    Limited(Policy),
    /// Always allowed, never counted.
    Exempt,
    /// Always refused, never counted.
    Blocked,
}

impl Rule {
    /// A rule with nothing special.
    pub fn new(name: impl Into<String>, policy: Policy) -> Rule {
        Rule::treating(name, Treatment::Limited(policy))
    }

    /// The same for a treatment that may be no limit at all.
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
    /// When the name is too long, or two limits would count in one place.
    pub fn named(&self, policy: &Policy) -> Result<Policy, LimitError> {
        let limit = |limit: &Limit| match limit.name() {
            Some(_) => Ok(limit.clone()),
            None => LimitBuilder::from(limit.clone()).name(&self.name[..]).build(),
        };
        Policy::new(policy.limits().iter().map(limit).collect::<Result<Vec<_>, _>>()?)
    }
}
