//! Converts nodes into typed values.

use std::time::Duration;

use tollgate::shared::OnFailure;
use tollgate::{Algorithm, Error, Limit, LimitError, Policy};
use tollgate_http::Headers;

use super::problem::TextPosition;
use super::tree::{Name, Node, Value, find, quoted};
use crate::rules::{Pattern, Treatment, Unit};
use crate::settings::{Address, Threads, span};

/// A mistake in a value, and its place.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) at: TextPosition,
    pub(crate) message: String,
}

impl Wrong {
    pub(crate) fn new(node: &Node, message: impl Into<String>) -> Wrong {
        Wrong { at: node.at, message: message.into() }
    }

    fn expected(node: &Node, what: &str) -> Wrong {
        Wrong::new(node, format!("expected {what}, found {}", node.kind()))
    }

    /// A limit that does not parse, with the place of the error inside its text if that is known.
    fn limit(node: &Node, text: &str, error: &LimitError) -> Wrong {
        let position = error.position().filter(|_| node.verbatim).unwrap_or(0);
        let before = text.get(..position).unwrap_or_default().chars().count();
        Wrong { at: node.at.right(before), message: error.to_string() }
    }
}

/// Conversion from a node.
pub(crate) trait FromNode: Sized {
    fn from_node(node: &Node) -> Result<Self, Wrong>;
}

/// The text of a node. A number counts as text.
pub(crate) fn text_of(node: &Node) -> Result<&str, Wrong> {
    match &node.value {
        Value::Plain(text) | Value::Text(text) => Ok(text),
        _ => Err(Wrong::expected(node, "a text")),
    }
}

impl FromNode for String {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        text_of(node).map(str::to_owned)
    }
}

impl FromNode for Pattern {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        text_of(node).map(Pattern::new)
    }
}

impl FromNode for bool {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        // YAML has several spellings of booleans, and files of Envoy's server may use them.
        match &node.value {
            Value::Plain(text) => match &text.to_ascii_lowercase()[..] {
                "true" | "yes" | "on" | "y" => Ok(true),
                "false" | "no" | "off" | "n" => Ok(false),
                _ => Err(Wrong::expected(node, "true or false")),
            },
            _ => Err(Wrong::expected(node, "true or false")),
        }
    }
}

impl FromNode for u64 {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        let Value::Plain(text) = &node.value else {
            return Err(Wrong::expected(node, "a whole number"));
        };
        text.replace('_', "").parse().map_err(|_| Wrong::expected(node, "a whole number"))
    }
}

impl FromNode for u32 {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        let number = u64::from_node(node)?;
        let most = u32::MAX;
        u32::try_from(number)
            .map_err(|_| Wrong::new(node, format!("{number}: must be at most {most}")))
    }
}

impl FromNode for usize {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        let number = u64::from_node(node)?;
        usize::try_from(number).map_err(|_| Wrong::new(node, format!("{number}: too large")))
    }
}

impl FromNode for Duration {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        span::parse(text_of(node)?).map_err(|error| Wrong::new(node, error))
    }
}

impl FromNode for Address {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        text_of(node)?.parse().map_err(|error: String| Wrong::new(node, error))
    }
}

impl FromNode for Threads {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        text_of(node)?.parse().map_err(|error: String| Wrong::new(node, error))
    }
}

impl FromNode for OnFailure {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        text_of(node)?.parse().map_err(|error: Error| Wrong::new(node, error.to_string()))
    }
}

/// Reads a list of header names, `[]` for none.
impl FromNode for Headers {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        let known = "expected a list of ratelimit, ratelimit-limit, x-ratelimit, x-ratelimit-unix, retry-after";
        let Value::List(nodes) = &node.value else {
            return Err(Wrong::new(node, format!("{known}, found {}", node.kind())));
        };
        nodes.iter().try_fold(Headers::none(), |headers, node| {
            let name = text_of(node)?;
            headers
                .named(name)
                .ok_or_else(|| Wrong::new(node, format!("{}: {known}", quoted(name))))
        })
    }
}

impl FromNode for Algorithm {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        let text = text_of(node)?;
        text.parse().map_err(|error| Wrong::limit(node, text, &error))
    }
}

impl FromNode for Unit {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        let text = text_of(node)?;
        Unit::named(text).ok_or_else(|| {
            let names: Vec<_> = Unit::ALL.iter().map(|(name, _)| *name).collect();
            Wrong::new(node, format!("{} is no unit; expected {}", quoted(text), names.join(", ")))
        })
    }
}

impl FromNode for Limit {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        let text = text_of(node)?;
        text.parse().map_err(|error| Wrong::limit(node, text, &error))
    }
}

impl FromNode for Policy {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        match &node.value {
            Value::Plain(text) | Value::Text(text) => {
                text.parse().map_err(|error| Wrong::limit(node, text, &error))
            }
            Value::Table(_) => Policy::try_from(from_table(node)?)
                .map_err(|error| Wrong::new(node, error.to_string())),
            Value::List(nodes) => {
                let limit = |node: &Node| match node.value {
                    Value::Table(_) => from_table(node),
                    _ => Limit::from_node(node),
                };
                let limits = nodes.iter().map(limit).collect::<Result<Vec<_>, _>>()?;
                Policy::new(limits).map_err(|error| Wrong::new(node, error.to_string()))
            }
            Value::Nothing => Err(Wrong::expected(node, "a limit such as \"100/minute\"")),
        }
    }
}

/// Reads a limit written as a table: quota, period and options.
fn from_table(node: &Node) -> Result<Limit, Wrong> {
    let Value::Table(table) = &node.value else { return Err(Wrong::expected(node, "a limit")) };
    let quota = find(table, "quota").or_else(|| find(table, "after"));
    let (Some(quota), Some(period)) = (quota, find(table, "period")) else {
        return Err(Wrong::new(node, "a limit needs a quota and a period"));
    };
    let (quota, period) = (u64::from_node(quota)?, Duration::from_node(period)?);
    let mut limit = match find(table, "for") {
        Some(length) => Limit::ban(quota, period, Duration::from_node(length)?),
        None => Limit::new(quota, period),
    };
    for (name, value) in table {
        limit = match &name.text[..] {
            "algorithm" => limit.algorithm(Algorithm::from_node(value)?),
            "burst" => limit.burst(u64::from_node(value)?),
            "name" => limit.name(String::from_node(value)?),
            "charge_denied" if bool::from_node(value)? => limit.charge_denied(),
            "max" => limit.doubling(Duration::from_node(value)?),
            "push" if bool::from_node(value)? => limit.push(),
            "quota" | "after" | "period" | "for" | "push" | "charge_denied" => limit,
            other => {
                let known = "known are quota, period, algorithm, burst, name, charge_denied, and of a ban after, for, max, push";
                let message = format!("{}: unknown; {known}", quoted(other));
                return Err(Wrong { at: name.at, message });
            }
        };
    }
    limit.build().map_err(|error| Wrong::new(node, error.to_string()))
}

/// Reads the words for keys that are not limited: `exempt` and `blocked`.
impl FromNode for Treatment {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        match &node.value {
            Value::Plain(text) | Value::Text(text) if text == "exempt" => Ok(Treatment::Exempt),
            Value::Plain(text) | Value::Text(text) if text == "blocked" => Ok(Treatment::Blocked),
            _ => Policy::from_node(node).map(Treatment::Limited),
        }
    }
}

/// Converts any node to JSON.
impl FromNode for serde_json::Value {
    fn from_node(node: &Node) -> Result<Self, Wrong> {
        use serde_json::Value as Json;
        Ok(match &node.value {
            Value::Nothing => Json::Null,
            Value::Text(text) => Json::String(text.clone()),
            Value::Plain(text) => {
                let plain = serde_json::from_str::<Json>(text).ok();
                plain
                    .filter(|json| json.is_number() || json.is_boolean())
                    .unwrap_or_else(|| Json::String(text.clone()))
            }
            Value::List(nodes) => nodes.iter().map(Json::from_node).collect::<Result<_, _>>()?,
            Value::Table(table) => {
                let entry =
                    |(name, node): &(Name, Node)| Ok((name.text.clone(), Json::from_node(node)?));
                Json::Object(table.iter().map(entry).collect::<Result<_, _>>()?)
            }
        })
    }
}
