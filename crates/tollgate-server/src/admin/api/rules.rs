//! `/api/v1/rules`: the rules in force with their counts.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate::{Description, Limit};

use crate::observe::{RULE_SPAN, RuleStats};
use crate::seconds::{Seconds, unix_now};
use crate::service::{BoundRule, Service, Verdict};

/// The most patterns of a rule that are listed.
const MOST_PATTERNS: usize = 100;

pub(super) fn all(service: &Service) -> Value {
    let now = unix_now();
    let mut rules: Vec<_> = service.rules().iter().map(|bound| rule(bound, now)).collect();
    // Limits that came with requests are counted together.
    let is_inline =
        |stats: &&Arc<RuleStats>| [stats.namespace(), stats.domain(), stats.name()] == [""; 3];
    rules.extend(service.observer().rules().iter().find(is_inline).map(|stats| {
        let mut inline = counts(stats, now);
        inline["inline"] = true.into();
        inline
    }));
    json!({ "now": now, "rules": rules })
}

fn rule(bound: &BoundRule, now: u64) -> Value {
    let mut rule = counts(bound.stats(), now);
    let overrides: Vec<_> = bound.overrides().collect();
    let limits: Vec<_> = bound.limits().iter().map(limit).collect();
    rule["inline"] = false.into();
    rule["limit"] = bound.described().into();
    rule["limits"] = limits.into();
    rule["shadow"] = bound.is_shadow().into();
    rule["cost"] = bound.cost().into();
    rule["costs"] = bound
        .costs()
        .take(MOST_PATTERNS)
        .map(|(pattern, cost)| json!({ "pattern": pattern, "cost": cost }))
        .collect();
    rule["overrides_total"] = overrides.len().into();
    rule["overrides"] = overrides
        .into_iter()
        .take(MOST_PATTERNS)
        .map(|(pattern, limit)| json!({ "pattern": pattern, "limit": limit }))
        .collect();
    rule
}

/// A limit in words.
pub(super) fn limit(limit: &Limit) -> Value {
    let Description { admits, at_most, .. } = limit.describe();
    json!({
        "limit": limit.to_string(),
        "algorithm": limit.algorithm().to_string(),
        "quota": limit.quota(),
        "burst": limit.burst(),
        "period": Seconds(limit.period()).to_string(),
        "admits": admits,
        "bound": at_most,
    })
}

fn counts(stats: &RuleStats, now: u64) -> Value {
    let spans = stats.spans(now);
    let column = |index: usize| spans.iter().map(|span| span[index]).collect::<Vec<_>>();
    let mut rule = json!({
        "namespace": stats.namespace(),
        "domain": stats.domain(),
        "name": stats.name(),
        "errors": stats.errors(),
        "history": {
            "span_seconds": RULE_SPAN,
            "passed": column(0),
            "denied": column(1),
            "shadowed": column(2),
        },
    });
    for verdict in Verdict::ALL {
        rule[verdict.name()] = stats.count(verdict).into();
    }
    rule
}
