//! Rules that are found by descriptors: lists of keys and values, as Envoy sends them.

use super::{Pattern, Rule};

/// One node of the tree of a domain.
///
/// An entry of a request meets, among the nodes of its level with its key, the one of the same
/// value; else the first pattern that matches, as they were written; else the one without a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// The key of an entry.
    pub key: String,
    /// Its value; `None` for any, each with a counter of its own.
    pub value: Option<Pattern>,
    /// What holds for descriptors that end here.
    pub rule: Option<Rule>,
    /// One counter for all values that the pattern matches.
    pub shared: bool,
    /// What may follow.
    pub descriptors: Vec<Descriptor>,
}

impl Descriptor {
    /// Of a key and a value, with nothing to say yet.
    pub fn new(key: impl Into<String>, value: Option<Pattern>) -> Descriptor {
        Descriptor { key: key.into(), value, rule: None, shared: false, descriptors: Vec::new() }
    }

    /// How many rules there are in it and below.
    #[must_use]
    pub fn rules(&self) -> usize {
        usize::from(self.rule.is_some())
            + self.descriptors.iter().map(Descriptor::rules).sum::<usize>()
    }
}
