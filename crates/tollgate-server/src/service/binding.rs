//! Prepares rules on a store and collects what is wrong with them.

use std::sync::Arc;

use tollgate::shared::AnyStore;

use super::{BoundRule, Defaults};
use crate::config::{Problem, Problems};
use crate::rules::Rule;

/// Prepares rules on a store, and collects the problems of those that it cannot hold.
pub(super) struct Binding<'a> {
    store: &'a AnyStore,
    defaults: &'a Defaults,
    problems: Vec<Problem>,
}

impl<'a> Binding<'a> {
    pub(super) fn new(store: &'a AnyStore, defaults: &'a Defaults) -> Binding<'a> {
        Binding { store, defaults, problems: Vec::new() }
    }

    /// Prepares the limits of a rule on the store. If the store cannot hold one of them, returns
    /// `None` and keeps the problem.
    pub(super) fn rule(&mut self, namespace: &str, rule: &Rule) -> Option<Arc<BoundRule>> {
        match BoundRule::new(self.store, self.defaults, namespace, rule) {
            Ok(bound) => Some(Arc::new(bound)),
            Err(error) => {
                self.problems.push(Problem::of_rule(rule, &error));
                None
            }
        }
    }

    /// Fails with all problems, if there were any.
    pub(super) fn end(self) -> Result<(), Problems> {
        if self.problems.is_empty() { Ok(()) } else { Err(Problems(self.problems)) }
    }
}
