//! Reads sections of rules: a limit, and other treatment for some keys.

use super::section::Section;
use super::tree::{Node, Value};
use super::value::text_of;
use crate::rules::{Pattern, Patterns, Rule, Treatment};

/// Reads the section of a rule, or its limit as plain text.
pub(crate) fn read(parent: &Section<'_>, path: &str, name: &str, node: &Node) -> Option<Rule> {
    if !matches!(node.value, Value::Table(_)) {
        let treatment = parent.convert_at(path, node)?;
        return checked(parent, path, node, Rule::treating(name, treatment));
    }
    let mut section = parent.inner(node, path.to_owned())?;
    let limit = section.node("limit");
    let treatment = limit.and_then(|limit| section.convert("limit", limit));
    if limit.is_none() {
        section.wrong_here("a rule needs a limit such as \"100/minute\"");
    }
    let rule = treatment.map(|treatment| options(&mut section, Rule::treating(name, treatment)));
    let rule = rule.and_then(|rule| checked(parent, path, limit?, rule));
    section.end();
    rule
}

/// Reads the options of a rule.
pub(crate) fn options(section: &mut Section<'_>, mut rule: Rule) -> Rule {
    section.put("shadow", &mut rule.shadow);
    section.put("cost", &mut rule.cost);
    section.put_some("on_failure", &mut rule.on_failure);
    section.put_some("deadline", &mut rule.deadline);
    rule.costs = patterns(section, "costs");
    rule.keys = keys(section);
    rule
}

fn patterns(section: &mut Section<'_>, name: &'static str) -> Patterns<u64> {
    let entries = section.entries(name);
    let cost = |node| section.convert::<u64>(name, node);
    entries
        .into_iter()
        .filter_map(|(pattern, node)| Some((Pattern::new(&pattern.text[..]), cost(node)?)))
        .collect()
}

/// Reads keys that are blocked, exempt or have limits of their own, in this order.
fn keys(section: &mut Section<'_>) -> Patterns<Treatment> {
    let mut keys: Vec<(Pattern, Treatment)> = Vec::new();
    for (name, treatment) in [("blocked", Treatment::Blocked), ("exempt", Treatment::Exempt)] {
        for node in section.list(name) {
            match text_of(node) {
                Ok(text) => {
                    if keys.iter().any(|(other, _)| other.text() == text) {
                        section.wrong(
                            name,
                            node.at,
                            format!("{text:?}: this key is in here already"),
                        );
                    }
                    keys.push((Pattern::new(text), treatment.clone()));
                }
                Err(wrong) => section.wrong(name, wrong.at, wrong.message),
            }
        }
    }
    for (pattern, node) in section.entries("overrides") {
        if keys.iter().any(|(other, _)| other.text() == pattern.text) {
            let message = format!("{:?}: this key is blocked or exempt already", pattern.text);
            section.wrong("overrides", pattern.at, message);
        }
        let path = format!("overrides.{:?}", pattern.text);
        if let Some(treatment) = section.convert_in(&path, node) {
            keys.push((Pattern::new(&pattern.text[..]), treatment));
        }
    }
    keys.into_iter().collect()
}

/// Adds the location to a rule, if its limits can take its name.
pub(crate) fn checked(
    section: &Section<'_>,
    path: &str,
    node: &Node,
    mut rule: Rule,
) -> Option<Rule> {
    rule.location = section.location(path, node.at);
    let all =
        std::iter::once(&rule.treatment).chain(rule.keys.iter().map(|(_, treatment)| treatment));
    let mut whole = true;
    for treatment in all {
        if let Treatment::Limited(policy) = treatment
            && let Err(error) = rule.named(policy)
        {
            section.wrong_at(path, node.at, &error.to_string());
            whole = false;
        }
    }
    whole.then_some(rule)
}
