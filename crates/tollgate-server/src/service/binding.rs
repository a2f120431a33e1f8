//! Rules put on a store.

use std::sync::Arc;

use tollgate::shared::AnyStore;

use super::{BoundRule, Defaults};
use crate::config::{Problem, Problems};
use crate::rules::Rule;

/// Rules while they are put on a store, and what is wrong with those that it cannot hold.
pub(super) struct Binding<'a> {
    store: &'a AnyStore,
    defaults: &'a Defaults,
    problems: Vec<Problem>,
}

impl<'a> Binding<'a> {
    pub(super) fn new(store: &'a AnyStore, defaults: &'a Defaults) -> Binding<'a> {
        Binding { store, defaults, problems: Vec::new() }
    }

    /// A rule on the store, unless it cannot hold that: then this is written down.
    pub(super) fn rule(&mut self, namespace: &str, rule: &Rule) -> Option<Arc<BoundRule>> {
        match BoundRule::new(self.store, self.defaults, namespace, rule) {
            Ok(bound) => Some(Arc::new(bound)),
            Err(error) => {
                self.problems.push(Problem::of_rule(rule, &error));
                None
            }
        }
    }

    /// All that is wrong.
    pub(super) fn end(self) -> Result<(), Problems> {
        if self.problems.is_empty() { Ok(()) } else { Err(Problems(self.problems)) }
    }
}
