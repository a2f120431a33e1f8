//! Reads descriptors. Files of Envoy's own server and ours have the same form, but ours take any
//! limit.

use std::collections::HashMap;

use tollgate::{Algorithm, CalendarUnit, Limit, Policy};

use super::problem::TextPosition;
use super::rule;
use super::section::Section;
use super::tree::{Node, Value, quoted};
use super::value::{Wrong, text_of};
use crate::rules::{Descriptor, EnvoyOptions, Pattern, Rate, Rule, Treatment, Unit};

/// Values of the levels above a list of descriptors, which the descriptors need.
#[derive(Clone, Debug)]
struct Above {
    /// The path, for names.
    path: String,
    /// Whether months and years are those of the calendar.
    calendar_units: bool,
}

/// Reads the descriptors of a domain.
pub(crate) fn read(section: &mut Section<'_>) -> Vec<Descriptor> {
    let calendar_units = section.value("calendar_units").unwrap_or(false);
    list(section, &Above { path: String::new(), calendar_units })
}

fn list(section: &mut Section<'_>, above: &Above) -> Vec<Descriptor> {
    let path = section.path("descriptors");
    let (mut all, mut seen) = (Vec::new(), HashMap::new());
    let nodes = match section.node("descriptors") {
        Some(Node { value: Value::List(nodes), .. }) => &nodes[..],
        Some(node) => {
            section.wrong(
                "descriptors",
                node.at,
                format!("expected a list, found {}", node.kind()),
            );
            &[]
        }
        None => &[],
    };
    for (index, node) in nodes.iter().enumerate() {
        let Some(inner) = section.inner(node, format!("{path}[{index}]")) else { continue };
        let at = inner.at;
        let Some(descriptor) = one(inner, above) else { continue };
        let entry = (descriptor.key.clone(), descriptor.value.clone());
        if let Some(first) = seen.insert(entry, at) {
            let named = quoted(&named(&descriptor, ""));
            let message = format!("{named}: written twice, first in line {}", first.line);
            section.wrong_at(&format!("{path}[{index}]"), at, &message);
        }
        all.push(descriptor);
    }
    all
}

fn one(mut section: Section<'_>, above: &Above) -> Option<Descriptor> {
    let key: String = section.value("key").unwrap_or_default();
    if key.is_empty() {
        section.wrong_here("a descriptor needs a key that is not empty");
    }
    let value: String = section.value("value").unwrap_or_default();
    let mut descriptor = Descriptor::new(key, (!value.is_empty()).then(|| Pattern::new(value)));
    section.put("share_threshold", &mut descriptor.shared);
    if descriptor.shared && descriptor.value.as_ref().is_none_or(Pattern::is_exact) {
        let at = section.place("share_threshold");
        section.wrong("share_threshold", at, "only values with a * can share a counter");
    }
    let above = Above { path: named(&descriptor, &above.path), ..*above };
    descriptor.rule = rule(&mut section, &above);
    descriptor.descriptors = list(&mut section, &above);
    let whole = !descriptor.key.is_empty();
    section.end();
    whole.then_some(descriptor)
}

/// The name of a descriptor without a `name`: its path.
fn named(descriptor: &Descriptor, above: &str) -> String {
    let mut name = above.to_owned();
    if !name.is_empty() {
        name.push('/');
    }
    name.push_str(&descriptor.key);
    if let Some(value) = &descriptor.value {
        name.push('=');
        name.push_str(value.text());
    }
    name
}

/// The longest name of a limit. A longer path is cut to this length and ends with a hash.
const LONGEST: usize = 200;
const KEPT: usize = 160;

fn shortened(name: &str) -> String {
    use sha2::{Digest as _, Sha256};
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let end = (0..=KEPT).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    let hash = Sha256::digest(name.as_bytes());
    let hash: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{}~{hash}", &name[..end])
}

fn rule(section: &mut Section<'_>, above: &Above) -> Option<Rule> {
    let (rate, limit) = (section.node("rate_limit"), section.node("limit"));
    let charge: Option<bool> = section.value("charge");
    let mut envoy = EnvoyOptions { charge: charge == Some(true), ..EnvoyOptions::default() };
    let mut name = None;
    let (node, treatment) = match (rate, limit) {
        (Some(rate), Some(_)) => {
            section.wrong_here("rate_limit and limit: only one of them is allowed");
            (rate, None)
        }
        (Some(node), None) => {
            let given = Given { charge, calendar_units: above.calendar_units };
            (node, rate_limit(section, node, given, &mut envoy, &mut name))
        }
        (None, Some(node)) => (node, section.convert::<Treatment>("limit", node)),
        (None, None) => {
            without_limit(section);
            return None;
        }
    };
    for node in section.list("replaces") {
        match text_of(node) {
            Ok(text) => envoy.replaces.push(text.to_owned()),
            Err(Wrong { at, message }) => section.wrong("replaces", at, message),
        }
    }
    section.put_some("name", &mut name);
    if let Some(name) = name.as_ref().filter(|name| envoy.replaces.contains(name)) {
        section.wrong_here(format!("replaces: {} would replace itself", quoted(name)));
    }
    let mut shadow = false;
    section.put("shadow_mode", &mut shadow);
    section.put("quota_mode", &mut envoy.quota);
    for name in ["detailed_metric", "value_to_metric"] {
        if section.value(name) == Some(true) {
            let at = section.place(name);
            section.warn(name, at, "metrics are counted by rule and never by value; the busiest values are at the admin port");
        }
    }
    envoy.metadata = metadata(section);
    let rule = Rule::treating(
        shortened(name.as_deref().unwrap_or(&above.path)),
        treatment.unwrap_or(Treatment::Exempt),
    );
    let mut rule = rule::options(section, rule);
    rule.shadow |= shadow;
    rule.envoy = envoy;
    rule::checked(section, &section.path("limit"), node, rule)
}

/// Reads the options of a rule in a descriptor without a limit, and reports the ones that are set.
fn without_limit(section: &mut Section<'_>) {
    for name in ["shadow_mode", "quota_mode", "shadow", "detailed_metric", "value_to_metric"] {
        // An inner node may say how its value is counted, so this needs no warning.
        if section.value(name) == Some(true) && !name.ends_with("_metric") {
            let at = section.place(name);
            section.warn(name, at, "there is no limit here, so this does nothing");
        }
    }
    let _ = metadata(section);
    for name in [
        "name",
        "replaces",
        "charge",
        "cost",
        "costs",
        "exempt",
        "blocked",
        "overrides",
        "on_failure",
        "deadline",
    ] {
        if let Some(node) = section.node(name) {
            section.wrong(name, node.at, "there is no limit here that this could belong to");
        }
    }
}

fn metadata(section: &mut Section<'_>) -> Option<serde_json::Map<String, serde_json::Value>> {
    let node = section.node("metadata")?;
    match section.convert("metadata", node)? {
        serde_json::Value::Object(object) => Some(object),
        _ => {
            section.wrong("metadata", node.at, format!("expected a table, found {}", node.kind()));
            None
        }
    }
}

/// Settings of a descriptor that are not part of `rate_limit` but change its meaning.
#[derive(Clone, Copy, Debug)]
struct Given {
    charge: Option<bool>,
    calendar_units: bool,
}

/// Reads `rate_limit` of Envoy's server: a number of requests per unit, in windows that are aligned
/// to the unit.
fn rate_limit(
    parent: &Section<'_>,
    node: &Node,
    given: Given,
    envoy: &mut EnvoyOptions,
    name: &mut Option<String>,
) -> Option<Treatment> {
    let mut section = parent.inner(node, parent.path("rate_limit"))?;
    let unlimited = section.value("unlimited").unwrap_or(false);
    let unit: Option<Unit> = section.value("unit");
    let algorithm: Option<Algorithm> = section.value("algorithm");
    let requests: Option<u32> = section.value("requests_per_unit");
    *name = section.value("name").filter(|name: &String| !name.is_empty());
    for node in section.list("replaces") {
        let Some(mut replaced) = section.inner(node, section.path("replaces")) else { continue };
        match replaced.value::<String>("name").filter(|name| !name.is_empty()) {
            Some(name) => envoy.replaces.push(name),
            None => replaced.wrong_here("an entry needs the name of a limit"),
        }
        replaced.end();
    }
    let treatment = match (unlimited, unit) {
        (true, None) => Some(Treatment::Exempt),
        (true, Some(_)) => {
            section.wrong("unit", section.place("unit"), "unlimited has no unit");
            None
        }
        (false, None) => {
            if !section.has("unit") {
                section.wrong_here("a rate limit needs a unit, or unlimited: true");
            }
            None
        }
        (false, Some(unit)) => {
            if !section.has("requests_per_unit") {
                section.warn(
                    "requests_per_unit",
                    section.at,
                    "missing, which is 0: everything is blocked",
                );
            }
            let requests = requests.unwrap_or(0);
            envoy.rate = Some(Rate { requests, unit });
            per_unit(&section, node, Rate { requests, unit }, algorithm, given)
        }
    };
    section.end();
    treatment
}

fn per_unit(
    section: &Section<'_>,
    node: &Node,
    Rate { requests, unit }: Rate,
    algorithm: Option<Algorithm>,
    given: Given,
) -> Option<Treatment> {
    if requests == 0 {
        return Some(Treatment::Blocked);
    }
    let of_calendar = match unit {
        Unit::Month => Some(CalendarUnit::Month),
        Unit::Year => Some(CalendarUnit::Year),
        _ => None,
    };
    let by_default = if given.calendar_units && of_calendar.is_some() {
        Algorithm::CalendarWindow
    } else {
        Algorithm::FixedWindow
    };
    let algorithm = algorithm.unwrap_or(by_default);
    let mut limit = match of_calendar.filter(|_| algorithm == Algorithm::CalendarWindow) {
        Some(unit) => Limit::per_calendar(requests.into(), unit),
        None => Limit::new(requests.into(), unit.period()).algorithm(algorithm),
    };
    if given.charge.is_none() && algorithm.can_charge_denied() {
        // Envoy's server counts denied hits too. Costs that are reported after the request rely on
        // it.
        limit = limit.charge_denied();
    }
    match Policy::try_from(limit) {
        Ok(policy) => Some(Treatment::Limited(policy)),
        Err(error) => {
            section.wrong_at(&section.path("requests_per_unit"), node.at, &error.to_string());
            None
        }
    }
}

/// A domain of a file: its name, its descriptors and its place.
#[derive(Debug)]
pub(crate) struct DomainSection {
    pub(crate) name: String,
    pub(crate) descriptors: Vec<Descriptor>,
    pub(crate) at: TextPosition,
}
