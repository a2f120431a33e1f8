//! Rules that are found by descriptors: lists of keys and values, as Envoy sends them.

use super::{Pattern, Rule};

/// One node of the tree of a domain.
///
/// An entry of a request is compared with the nodes of its level that have its key: first the node
/// with the same value, then the first pattern that matches, in the order of the file, then the
/// node without a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// The key of an entry.
    pub key: String,
    /// The value; `None` for any value, each with its own counter.
    pub value: Option<Pattern>,
    /// The rule for descriptors that end here.
    pub rule: Option<Rule>,
    /// All values that the pattern matches share one counter.
    pub shared: bool,
    /// The nodes for the next entry.
    pub descriptors: Vec<Descriptor>,
}

impl Descriptor {
    /// A node with a key and a value, without a rule.
    pub fn new(key: impl Into<String>, value: Option<Pattern>) -> Descriptor {
        Descriptor { key: key.into(), value, rule: None, shared: false, descriptors: Vec::new() }
    }

    /// The number of rules in this node and below.
    #[must_use]
    pub fn rules(&self) -> usize {
        usize::from(self.rule.is_some())
            + self.descriptors.iter().map(Descriptor::rules).sum::<usize>()
    }
}
