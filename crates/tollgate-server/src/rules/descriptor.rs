//! Rules that are found by descriptors: lists of keys and values, as Envoy sends them.

use super::{Pattern, Rule};

/// One node of the tree of a domain.
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
    /// Rules, by their title, that do not hold for a request that this one holds for.
    pub replaces: Vec<String>,
    /// What may follow.
    pub descriptors: Vec<Descriptor>,
}

impl Descriptor {
    /// Of a key and a value, with nothing to say yet.
    pub fn new(key: impl Into<String>, value: Option<Pattern>) -> Descriptor {
        Descriptor {
            key: key.into(),
            value,
            rule: None,
            shared: false,
            replaces: Vec::new(),
            descriptors: Vec::new(),
        }
    }

    /// The node for an entry: the same key and value first, then patterns as they were written, then the key alone.
    #[must_use]
    pub fn find<'a>(nodes: &'a [Descriptor], key: &str, value: &str) -> Option<&'a Descriptor> {
        let of_key = || nodes.iter().filter(|node| node.key == key);
        let exact = |node: &&Descriptor| {
            node.value.as_ref().is_some_and(|pattern| pattern.is_exact() && pattern.text() == value)
        };
        let wild = |node: &&Descriptor| {
            node.value.as_ref().is_some_and(|pattern| pattern.matches(value.as_bytes()))
        };
        of_key()
            .find(exact)
            .or_else(|| of_key().find(wild))
            .or_else(|| of_key().find(|node| node.value.is_none()))
    }
}
