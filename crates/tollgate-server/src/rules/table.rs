//! Rules as rows of a table for people.

use serde::Serialize;
use tollgate::shared::OnFailure;

use super::{Descriptor, Rule, RuleSet, Treatment};

/// A rule as a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The namespace of the rule; empty for the default namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The domain of the rule, if it belongs to one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// The path of its descriptor, if it belongs to a domain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub descriptor: String,
    /// The name of the rule.
    pub name: String,
    /// The limit of the rule as text, or `exempt`, or `blocked`.
    pub limit: String,
    /// The options of the rule as words.
    pub options: Vec<String>,
}

impl RuleSet {
    /// All rules as rows.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for ((namespace, _), rule) in &self.limits {
            rows.push(Row { namespace: namespace.clone(), ..row(rule) });
        }
        for (domain, descriptors) in &self.domains {
            below(descriptors, "", domain, &mut rows);
        }
        rows
    }
}

fn below(descriptors: &[Descriptor], above: &str, domain: &str, rows: &mut Vec<Row>) {
    for node in descriptors {
        let value = node.value.as_ref().map_or(String::new(), |value| format!("={}", value.text()));
        let slash = if above.is_empty() { "" } else { "/" };
        let path = format!("{above}{slash}{}{value}", node.key);
        if let Some(rule) = &node.rule {
            let mut row = Row { domain: domain.to_owned(), descriptor: path.clone(), ..row(rule) };
            if node.shared {
                row.options.push("one counter for all values".to_owned());
            }
            rows.push(row);
        }
        below(&node.descriptors, &path, domain, rows);
    }
}

fn row(rule: &Rule) -> Row {
    Row {
        namespace: String::new(),
        domain: String::new(),
        descriptor: String::new(),
        name: rule.name.clone(),
        limit: words(&rule.treatment),
        options: options(rule),
    }
}

fn words(treatment: &Treatment) -> String {
    match treatment {
        Treatment::Limited(policy) => policy.to_string(),
        Treatment::Exempt => "exempt".to_owned(),
        Treatment::Blocked => "blocked".to_owned(),
    }
}

fn options(rule: &Rule) -> Vec<String> {
    let mut options = Vec::new();
    if rule.shadow {
        options.push("shadow".to_owned());
    }
    if rule.envoy.quota {
        options.push("quota".to_owned());
    }
    if rule.envoy.charge {
        options.push("charge".to_owned());
    }
    if rule.cost != 1 {
        options.push(format!("cost {}", rule.cost));
    }
    options.extend(rule.costs.iter().map(|(key, cost)| format!("{key}: cost {cost}")));
    options.extend(rule.keys.iter().map(|(key, treatment)| format!("{key}: {}", words(treatment))));
    options.extend(rule.envoy.replaces.iter().map(|name| format!("replaces {name}")));
    if let Some(on_failure) = rule.on_failure {
        options.push(format!("on failure {}", outage(on_failure)));
    }
    if let Some(deadline) = rule.deadline {
        options.push(format!("deadline {deadline:?}"));
    }
    options
}

fn outage(on_failure: OnFailure) -> &'static str {
    match on_failure {
        OnFailure::Error => "error",
        OnFailure::Open => "open",
        OnFailure::Closed => "closed",
        _ => "local",
    }
}
