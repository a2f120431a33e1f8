//! One rule.

use std::time::Duration;

use tollgate::Policy;
use tollgate::shared::OnFailure;

use super::Patterns;

/// A limit with a name, and what operators want to be different for some keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// In metrics and headers, and in the identity of its counters: a quota can change and the counts stay.
    pub name: String,
    /// What most keys get.
    pub treatment: Treatment,
    /// What some keys get instead.
    pub keys: Patterns<Treatment>,
    /// Decides and counts, and never refuses.
    pub shadow: bool,
    /// How many units one hit of cost 1 takes.
    pub cost: u64,
    /// What to answer when the store does not, instead of what holds for all rules.
    pub on_failure: Option<OnFailure>,
    /// How long the store may take, instead of what holds for all rules.
    pub deadline: Option<Duration>,
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
        Rule {
            name: name.into(),
            treatment: Treatment::Limited(policy),
            keys: Patterns::default(),
            shadow: false,
            cost: 1,
            on_failure: None,
            deadline: None,
        }
    }
}
