//! The rules in force.

use serde_json::{Value, json};

use crate::service::{BoundRule, Service, Verdict};

pub(super) fn text(service: &Service) -> String {
    let rules = service.rules();
    let rules: Vec<_> = rules.iter().map(|bound| rule(bound)).collect();
    json!({"rules": rules, "reloads": service.reloads().status()}).to_string()
}

fn rule(bound: &BoundRule) -> Value {
    let stats = bound.stats();
    let mut rule = json!({
        "namespace": stats.namespace(),
        "domain": stats.domain(),
        "name": bound.name(),
        "limit": bound.described(),
        "shadow": bound.is_shadow(),
        "errors": stats.errors(),
    });
    for verdict in Verdict::ALL {
        rule[verdict.name()] = stats.count(verdict).into();
    }
    rule
}
