//! Requests that failed: counts by kind, with an example of each.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

/// The longest text of an error that is shown, in characters.
const LONGEST: usize = 200;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Failures are counted by kind: `HTTP 401`, `connection refused`.
    pub(super) kind: String,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn new(kind: impl Into<String>, text: &str) -> Failure {
        // The text may come from the server and is printed on a terminal in one line.
        let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        Failure { kind: kind.into(), text: plain.take(LONGEST).collect() }
    }

    pub(super) fn io(address: SocketAddr, error: &std::io::Error) -> Failure {
        Failure::new(error.kind().to_string(), &format!("server {address}: {error}"))
    }
}

/// Failures of one kind.
#[derive(Clone, Debug)]
struct Group {
    count: u64,
    first: String,
}

/// Counts of failures, by kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures(BTreeMap<String, Group>);

impl Failures {
    pub(super) fn add(&mut self, failure: Failure, count: u64) {
        let first = || Group { count: 0, first: failure.text };
        self.0.entry(failure.kind).or_insert_with(first).count += count;
    }

    pub(super) fn merge(&mut self, other: &Failures) {
        for (kind, group) in &other.0 {
            let first = || Group { count: 0, first: group.first.clone() };
            self.0.entry(kind.clone()).or_insert_with(first).count += group.count;
        }
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let groups = self.0.iter().map(|(kind, Group { count, first })| {
            (kind.clone(), serde_json::json!({"count": count, "first": first}))
        });
        groups.collect::<serde_json::Map<_, _>>().into()
    }
}

/// A line for each kind.
impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, Group { count, first }) in &self.0 {
            writeln!(f, "  {:>12} {kind}: {first}", tollgate_report::grouped(*count))?;
        }
        Ok(())
    }
}
