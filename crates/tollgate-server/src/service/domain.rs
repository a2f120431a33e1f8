//! The rules of a domain on the store.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate::key::Form;
use tollgate::{Key, KeyRef, Parts};

use super::binding::Binding;
use super::bound_rule::BoundRule;
use crate::rules::{Descriptor, Pattern};

/// The rules of a domain, found by the entries of a descriptor in a few look-ups for each.
#[derive(Debug, Default)]
pub(crate) struct Domain(Nodes);

/// The nodes of one depth, by key.
type Nodes = HashMap<Box<str>, OfKey, RandomState>;

/// The nodes of one key: by value, by pattern in the order of the file, and for any value.
#[derive(Debug, Default)]
struct OfKey {
    exact: HashMap<Box<[u8]>, Node, RandomState>,
    wild: Vec<(Pattern, Node)>,
    any: Option<Box<Node>>,
}

#[derive(Debug, Default)]
struct Node {
    rule: Option<Arc<BoundRule>>,
    /// Replaces the value in the key of a counter that all values share.
    shared: Option<Box<str>>,
    next: Nodes,
}

/// An entry of a descriptor, as any protocol holds it.
pub trait DescriptorEntry {
    /// Its key.
    fn key(&self) -> &str;
    /// Its value: bytes, because headers need not be text.
    fn value(&self) -> &[u8];
}

impl DescriptorEntry for (&str, &str) {
    fn key(&self) -> &str {
        self.0
    }

    fn value(&self) -> &[u8] {
        self.1.as_bytes()
    }
}

/// The rule that a descriptor meets.
#[derive(Clone, Debug)]
pub struct Match {
    /// The rule.
    pub rule: Arc<BoundRule>,
    /// The counter.
    pub key: DescriptorKey,
}

/// The key of a counter of a domain: keys and values of the entries in turn, the pattern instead of
/// the value where it is shared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DescriptorKey(Box<[u8]>);

impl Key for DescriptorKey {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        f(KeyRef::from_parts(Form::Tuple, &self.0))
    }
}

impl DescriptorKey {
    /// The key of these entries, with their values as they are.
    pub fn new<E: DescriptorEntry>(entries: &[E]) -> DescriptorKey {
        let mut pairs = Pairs::default();
        entries.iter().for_each(|entry| pairs.push(entry.key(), entry.value()));
        pairs.key()
    }
}

/// Keys and values in turn, on the stack unless there are many.
#[derive(Default)]
struct Pairs<'a> {
    few: [&'a [u8]; 2 * Pairs::FEW],
    count: usize,
    many: Vec<&'a [u8]>,
}

impl<'a> Pairs<'a> {
    const FEW: usize = 6;

    fn push(&mut self, key: &'a str, value: &'a [u8]) {
        let (key, at) = (key.as_bytes(), 2 * self.count);
        self.count += 1;
        match self.few.get_mut(at..at + 2) {
            Some(room) => room.copy_from_slice(&[key, value]),
            None => self.many.extend([key, value]),
        }
    }

    fn key(&self) -> DescriptorKey {
        let framed =
            |parts: &[&[u8]]| Parts(parts).with_key(|key| DescriptorKey(key.bytes().into()));
        if self.many.is_empty() {
            return framed(&self.few[..2 * self.count]);
        }
        framed(&[&self.few[..], &self.many[..]].concat())
    }
}

impl Domain {
    pub(super) fn new(binding: &mut Binding<'_>, name: &str, descriptors: &[Descriptor]) -> Domain {
        Domain(nodes(binding, &namespace(name), descriptors))
    }

    /// All rules in it.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = &Arc<BoundRule>> {
        let mut found = Vec::new();
        collect(&self.0, &mut found);
        found.into_iter()
    }

    /// The rule for these entries, if there is one for exactly that many.
    pub(crate) fn find<E: DescriptorEntry>(&self, entries: &[E]) -> Option<Match> {
        let (mut nodes, mut rule, mut pairs) = (&self.0, None, Pairs::default());
        for entry in entries {
            let node = nodes.get(entry.key())?.find(entry.value())?;
            let shared = node.shared.as_deref().map(str::as_bytes);
            pairs.push(entry.key(), shared.unwrap_or_else(|| entry.value()));
            (nodes, rule) = (&node.next, node.rule.as_ref());
        }
        Some(Match { rule: Arc::clone(rule?), key: pairs.key() })
    }
}

impl OfKey {
    fn find(&self, value: &[u8]) -> Option<&Node> {
        let wild = || self.wild.iter().find(|(pattern, _)| pattern.matches(value));
        self.exact.get(value).or_else(|| wild().map(|(_, node)| node)).or(self.any.as_deref())
    }
}

fn collect<'a>(nodes: &'a Nodes, found: &mut Vec<&'a Arc<BoundRule>>) {
    for of_key in nodes.values() {
        let wild = of_key.wild.iter().map(|(_, node)| node);
        for node in of_key.exact.values().chain(wild).chain(of_key.any.as_deref()) {
            found.extend(node.rule.as_ref());
            collect(&node.next, found);
        }
    }
}

fn nodes(binding: &mut Binding<'_>, namespace: &str, descriptors: &[Descriptor]) -> Nodes {
    let mut nodes = Nodes::default();
    for descriptor in descriptors {
        let rule = descriptor.rule.as_ref();
        let shared = descriptor.value.as_ref().filter(|_| descriptor.shared);
        let node = Node {
            rule: rule.and_then(|rule| binding.rule(namespace, rule)),
            shared: shared.map(|pattern| pattern.text().into()),
            next: self::nodes(binding, namespace, &descriptor.descriptors),
        };
        let of_key = nodes.entry(descriptor.key[..].into()).or_default();
        match &descriptor.value {
            None => of_key.any = Some(Box::new(node)),
            Some(pattern) if pattern.is_exact() => {
                of_key.exact.insert(pattern.text().as_bytes().into(), node);
            }
            Some(pattern) => of_key.wild.push((pattern.clone(), node)),
        }
    }
    nodes
}

/// The namespace of the counters of a domain, apart from those of named limits.
pub(crate) fn namespace(domain: &str) -> String {
    format!("domain:{domain}")
}

#[cfg(test)]
mod tests {
    use tollgate::Policy;
    use tollgate::shared::{AnyStore, InProcess};

    use super::*;
    use crate::rules::Rule;
    use crate::service::Defaults;

    fn node(key: &str, value: Option<&str>, next: Vec<Descriptor>) -> Descriptor {
        let policy: Policy = "1/hour".parse().unwrap();
        let name = format!("{key}={}", value.unwrap_or("any"));
        Descriptor {
            rule: Some(Rule::new(name, policy)),
            descriptors: next,
            ..Descriptor::new(key, value.map(Pattern::new))
        }
    }

    fn domain(descriptors: &[Descriptor]) -> Domain {
        let store = AnyStore::new(InProcess::new(tollgate::Memory::new()));
        let defaults = Defaults::default();
        let mut binding = Binding::new(&store, &defaults);
        let domain = Domain::new(&mut binding, "shop", descriptors);
        binding.end().unwrap();
        domain
    }

    fn found(domain: &Domain, entries: &[(&str, &str)]) -> Option<String> {
        domain.find(entries).map(|found| found.rule.name().to_owned())
    }

    #[test]
    fn an_exact_value_precedes_patterns_and_patterns_precede_the_key_alone() {
        let below = vec![node("user", None, vec![])];
        let domain = domain(&[
            node("path", None, vec![]),
            node("path", Some("/files/*"), vec![]),
            node("path", Some("/*"), vec![]),
            node("path", Some("/files/a"), below),
        ]);
        let path = |value| found(&domain, &[("path", value)]);
        assert_eq!(path("/files/a").as_deref(), Some("path=/files/a"));
        assert_eq!(path("/files/b").as_deref(), Some("path=/files/*"));
        assert_eq!(path("/other").as_deref(), Some("path=/*"));
        assert_eq!(path("").as_deref(), Some("path=any"));
        assert_eq!(found(&domain, &[("method", "GET")]), None);
        // The same depth: neither above nor below.
        let two = |value| found(&domain, &[("path", value), ("user", "1")]);
        assert_eq!((two("/files/a").as_deref(), two("/files/b")), (Some("user=any"), None));
        let three = [("path", "/files/a"), ("user", "1"), ("x", "")];
        assert_eq!((found(&domain, &three), found(&domain, &[])), (None, None));
    }

    #[test]
    fn values_have_counters_of_their_own_unless_they_share_one() {
        let mut shared = node("path", Some("/s/*"), vec![node("user", None, vec![])]);
        shared.shared = true;
        let domain = domain(&[node("path", Some("/*"), vec![]), shared]);
        let key = |entries: &[(&str, &str)]| domain.find(entries).unwrap().key;
        assert_ne!(key(&[("path", "/a")]), key(&[("path", "/b")]));
        assert_eq!(key(&[("path", "/a")]), DescriptorKey::new(&[("path", "/a")]));
        // The pattern that shares is not the first that matches "/s/..." here.
        let first = domain.find(&[("path", "/s/a")]).unwrap();
        assert_eq!(first.rule.name(), "path=/*");
    }

    #[test]
    fn a_value_shared_at_one_level_is_shared_below() {
        let mut shared = node("path", Some("/s/*"), vec![node("user", None, vec![])]);
        shared.shared = true;
        let domain = domain(&[shared]);
        let key = |entries: &[(&str, &str)]| domain.find(entries).unwrap().key;
        assert_eq!(key(&[("path", "/s/a")]), key(&[("path", "/s/b")]));
        let user = |path, user| key(&[("path", path), ("user", user)]);
        assert_eq!(user("/s/a", "1"), user("/s/b", "1"));
        assert_ne!(user("/s/a", "1"), user("/s/a", "2"));
    }

    #[test]
    fn keys_of_many_and_few_entries_are_framed_alike() {
        for count in [1, 6, 7, 20] {
            let entries = vec![("k", "v"); count];
            let parts: Vec<_> = entries.iter().flat_map(|(key, value)| [*key, *value]).collect();
            let framed = Parts(&parts).with_key(|key| DescriptorKey(key.bytes().into()));
            assert_eq!(DescriptorKey::new(&entries), framed);
        }
    }
}
