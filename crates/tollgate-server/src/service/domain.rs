//! The rules of a domain on the store.

use std::sync::Arc;

use tollgate::shared::AnyStore;

use super::Defaults;
use super::bound::Bound;
use super::refusal::Refusal;
use crate::rules::{Descriptor, Pattern};

/// The tree of a domain: its rules are bound to the store, each found by the path to its node.
#[derive(Debug)]
pub(crate) struct Domain {
    descriptors: Vec<Descriptor>,
    /// In the order in which a walk through the tree meets the rules.
    bounds: Vec<(Vec<usize>, Arc<Bound>)>,
}

/// The rule that a descriptor meets.
#[derive(Clone, Debug)]
pub struct Match {
    /// The rule.
    pub bound: Arc<Bound>,
    /// The parts of the key: keys and values of the entries in turn, the pattern instead of the value where it is shared.
    pub key: Vec<String>,
    /// Rules, by their name, that do not hold beside this one.
    pub replaces: Vec<String>,
}

impl Domain {
    pub(crate) fn new(
        store: &AnyStore,
        defaults: &Defaults,
        name: &str,
        descriptors: &[Descriptor],
    ) -> Result<Domain, Refusal> {
        let mut domain = Domain { descriptors: descriptors.to_vec(), bounds: Vec::new() };
        let namespace = namespace(name);
        let mut walk = vec![(Vec::new(), descriptors)];
        while let Some((path, nodes)) = walk.pop() {
            for (index, node) in nodes.iter().enumerate() {
                let path = [&path[..], &[index]].concat();
                if let Some(rule) = &node.rule {
                    let bound = Bound::new(store, defaults, &namespace, rule)?;
                    domain.bounds.push((path.clone(), Arc::new(bound)));
                }
                walk.push((path, &node.descriptors));
            }
        }
        Ok(domain)
    }

    /// All its rules.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = &Arc<Bound>> {
        self.bounds.iter().map(|(_, bound)| bound)
    }

    /// The rule for these entries, if there is one for exactly that many.
    pub(crate) fn find(&self, entries: &[(&str, &str)]) -> Option<Match> {
        let mut nodes = &self.descriptors[..];
        let (mut path, mut key, mut last) = (Vec::new(), Vec::new(), None);
        for (name, value) in entries {
            let node = Descriptor::find(nodes, name, value)?;
            path.push(nodes.iter().position(|other| std::ptr::eq(other, node))?);
            let shared = node.value.as_ref().filter(|_| node.shared).map(Pattern::text);
            key.extend([(*name).to_owned(), shared.unwrap_or(value).to_owned()]);
            nodes = &node.descriptors;
            last = Some(node);
        }
        let bound = self.bounds.iter().find(|(at, _)| *at == path)?;
        Some(Match { bound: Arc::clone(&bound.1), key, replaces: last?.replaces.clone() })
    }
}

/// Where the counters of a domain are: apart from those of named limits.
pub(crate) fn namespace(domain: &str) -> String {
    format!("domain:{domain}")
}
