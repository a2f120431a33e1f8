//! The rows of rules and keys, with their rates and in their order.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;
use tollgate::Timestamp;

use super::Sample;

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    /// Hits since the server started
    Hits,
    /// Denied hits since the server started
    Denied,
    /// Hits in the last second
    Rate,
    /// The name of the rule, or the key
    Name,
}

/// The state of the server, as the event stream has it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Overview {
    pub(super) version: String,
    pub(super) node: Option<String>,
    pub(super) uptime_seconds: u64,
    pub(super) second: Second,
    pub(super) ports: Vec<Port>,
    pub(super) store: Store,
}

/// The hits of the last second by verdict, and the calls that the store did not answer.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Second {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) shadowed: u64,
    pub(super) exempt: u64,
    pub(super) blocked: u64,
    /// Servers before bans do not send it.
    #[serde(default)]
    pub(super) banned: u64,
    pub(super) errors: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Port {
    pub(super) port: String,
    pub(super) connections: u64,
    /// Requests of the last ten seconds, to which `p99_us` belongs.
    pub(super) requests: u64,
    /// `None` without requests, and if it is more than the histogram can tell.
    pub(super) p99_us: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Store {
    pub(super) url: String,
    pub(super) breakers: u64,
    pub(super) open_breakers: u64,
}

#[derive(Deserialize)]
struct Rules {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    namespace: String,
    domain: String,
    name: String,
    limit: Option<String>,
    inline: bool,
    allowed: u64,
    denied: u64,
    shadowed: u64,
    exempt: u64,
    blocked: u64,
    #[serde(default)]
    banned: u64,
}

#[derive(Deserialize)]
struct Keys {
    busiest: Vec<Key>,
    denied: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    namespace: String,
    domain: String,
    rule: String,
    key: String,
    count: u64,
}

/// Identifies a row in two samples: namespace, domain, rule, and the key or nothing.
type Id = [String; 4];

/// A count, and how much it grew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) total: u64,
    /// In tenths per second; `None` without an earlier sample.
    pub(super) rate: Option<u64>,
}

/// One rule or one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    id: Id,
    /// The name that the row shows.
    pub(super) name: String,
    /// The limit of a rule, or the rule of a key.
    pub(super) about: String,
    /// `None` for a key that is not among the busiest.
    pub(super) hits: Option<Count>,
    /// `None` for a key that is not among the most denied.
    pub(super) denied: Option<Count>,
    pub(super) shadowed: u64,
}

/// Everything that is shown.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    at: Timestamp,
    pub(super) overview: Overview,
    pub(super) rules: Vec<Row>,
    pub(super) keys: Vec<Row>,
}

impl Figures {
    /// The figures of a sample. Rates are those since the earlier figures.
    pub(super) fn new(sample: &Sample, before: Option<&Figures>) -> Result<Figures, String> {
        let unknown = |error: serde_json::Error| {
            format!("the server's answer is not that of this version: {error}")
        };
        let overview = Overview::deserialize(&sample.overview).map_err(unknown)?;
        let Rules { rules } = Rules::deserialize(&sample.rules).map_err(unknown)?;
        let keys = Keys::deserialize(&sample.keys).map_err(unknown)?;
        let mut figures = Figures {
            at: sample.at,
            overview,
            rules: rules.into_iter().map(rule_row).collect(),
            keys: key_rows(keys),
        };
        if let Some(before) = before {
            let span = figures.at.since(before.at);
            add_rates(&mut figures.rules, &before.rules, span);
            add_rates(&mut figures.keys, &before.keys, span);
        }
        Ok(figures)
    }
}

fn rule_row(rule: Rule) -> Row {
    let Rule {
        namespace, domain, name, allowed, denied, shadowed, exempt, blocked, banned, ..
    } = rule;
    let refused = denied + blocked + banned;
    let hits = allowed + refused + shadowed + exempt;
    let shown = if rule.inline { "(limits of requests)" } else { &name[..] };
    Row {
        name: place(&namespace, &domain, shown),
        about: rule.limit.map(|limit| unnamed(&limit)).unwrap_or_default(),
        hits: Some(Count { total: hits, rate: None }),
        denied: Some(Count { total: refused, rate: None }),
        shadowed,
        id: [namespace, domain, name, String::new()],
    }
}

/// A policy as text without the names of its limits, which the server makes of the rule's name.
fn unnamed(policy: &str) -> String {
    const NAME: &str = " name=";
    let (mut out, mut rest) = (String::new(), policy);
    while let Some((before, name)) = rest.split_once(NAME) {
        out.push_str(before);
        rest = match name.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').map_or("", |(_, rest)| rest),
            None => &name[name.find([' ', ';', ')']).unwrap_or(name.len())..],
        };
    }
    out + rest
}

/// A rule with its domain or namespace.
fn place(namespace: &str, domain: &str, rule: &str) -> String {
    let parts = [domain, namespace, rule].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

/// One row for each key, whether it is in one of the lists or in both.
fn key_rows(keys: Keys) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut known: HashMap<Id, usize> = HashMap::new();
    let busiest = keys.busiest.into_iter().map(|key| (key, false));
    for (key, is_denials) in busiest.chain(keys.denied.into_iter().map(|key| (key, true))) {
        let Key { namespace, domain, rule, key, count } = key;
        let shown = if rule.is_empty() { "(limit of a request)" } else { &rule[..] };
        let about = place(&namespace, &domain, shown);
        let id = [namespace, domain, rule, key];
        let index = *known.entry(id.clone()).or_insert_with(|| {
            let name = id[3].clone();
            rows.push(Row { id, name, about, hits: None, denied: None, shadowed: 0 });
            rows.len() - 1
        });
        let count = Some(Count { total: count, rate: None });
        if is_denials {
            rows[index].denied = count;
        } else {
            rows[index].hits = count;
        }
    }
    rows
}

fn add_rates(rows: &mut [Row], before: &[Row], span: Duration) {
    let before: HashMap<&Id, &Row> = before.iter().map(|row| (&row.id, row)).collect();
    for row in rows {
        let Some(before) = before.get(&row.id) else { continue };
        for (count, before) in [(&mut row.hits, before.hits), (&mut row.denied, before.denied)] {
            if let (Some(count), Some(before)) = (count, before) {
                count.rate = rate(before.total, count.total, span);
            }
        }
    }
}

/// The growth in tenths per second; `None` if the count fell, because the server restarted.
fn rate(before: u64, now: u64, span: Duration) -> Option<u64> {
    let grown = u128::from(now.checked_sub(before)?);
    let micros = span.as_micros();
    u64::try_from((grown * 10_000_000 + micros / 2).checked_div(micros)?).ok()
}

/// The rows in this order. Rows that are equal are in the order of their names.
pub(super) fn sorted(rows: &[Row], sort: Sort) -> Vec<&Row> {
    let total = |count: Option<Count>| count.map(|count| count.total);
    let mut rows: Vec<_> = rows.iter().collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.about.cmp(&b.about)));
    match sort {
        Sort::Hits => rows.sort_by_key(|row| Reverse((total(row.hits), total(row.denied)))),
        Sort::Denied => rows.sort_by_key(|row| Reverse((total(row.denied), total(row.hits)))),
        Sort::Rate => {
            let rate = |row: &Row| row.hits.and_then(|hits| hits.rate);
            rows.sort_by_key(|row| Reverse((rate(row), total(row.hits))));
        }
        Sort::Name => {}
    }
    rows
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn key(rule: &str, key: &str, count: u64) -> Value {
        json!({"namespace": "", "domain": "", "rule": rule, "key": key, "id": key, "count": count, "over": 0})
    }

    fn rule(name: &str, allowed: u64, denied: u64) -> Value {
        json!({
            "namespace": "", "domain": "shop", "name": name, "limit": "5/hour name=api; 9/day name=\"a; b\" charge-denied", "inline": false,
            "allowed": allowed, "denied": denied, "shadowed": 0, "exempt": 0, "blocked": 0,
        })
    }

    /// A sample at a time in milliseconds: the rule `api` with its allowed and denied hits.
    pub(in super::super) fn sample(millis: u64, allowed: u64, denied: u64) -> Sample {
        let second = json!({"at": 1, "allowed": 40, "denied": 2, "shadowed": 0, "exempt": 1, "blocked": 0, "errors": 3});
        let hits = allowed + denied;
        Sample {
            at: Timestamp::from_micros(millis * 1_000),
            overview: json!({
                "version": "0.1.0", "node": "a", "uptime_seconds": 93_784, "second": second,
                "ports": [
                    {"port": "http", "connections": 12, "requests": 9, "p50_us": 64, "p99_us": 1_024},
                    {"port": "grpc", "connections": 0, "requests": 0, "p50_us": null, "p99_us": null},
                ],
                "store": {"url": "memory:", "breakers": 1, "open_breakers": 0},
            }),
            rules: json!({"rules": [rule("api", allowed, denied), rule("quiet", 1, 0)]}),
            keys: json!({
                "busiest": [key("api", "alice", hits), key("api", "bob", 7)],
                "denied": [key("api", "alice", denied), key("api", "eve", 1)],
            }),
        }
    }

    fn names(rows: &[Row], sort: Sort) -> Vec<&str> {
        sorted(rows, sort).into_iter().map(|row| &row.name[..]).collect()
    }

    #[test]
    fn a_rate_is_the_growth_since_the_sample_before() {
        let before = Figures::new(&sample(0, 100, 10), None).unwrap();
        assert_eq!(before.rules[0].hits, Some(Count { total: 110, rate: None }));
        let now = Figures::new(&sample(2_000, 150, 15), Some(&before)).unwrap();
        assert_eq!(now.rules[0].hits, Some(Count { total: 165, rate: Some(275) }));
        assert_eq!(now.rules[0].denied, Some(Count { total: 15, rate: Some(25) }));
        // The server restarted, so the counts are lower.
        let fewer = Figures::new(&sample(3_000, 1, 0), Some(&now)).unwrap();
        assert_eq!(fewer.rules[0].hits, Some(Count { total: 1, rate: None }));
        assert_eq!(rate(1, 2, Duration::ZERO), None);
    }

    #[test]
    fn a_key_of_both_lists_is_one_row() {
        let figures = Figures::new(&sample(0, 100, 10), None).unwrap();
        let total = |count: Option<Count>| count.map(|count| count.total);
        let rows: Vec<_> = figures
            .keys
            .iter()
            .map(|row| (&row.name[..], total(row.hits), total(row.denied)))
            .collect();
        let expected =
            [("alice", Some(110), Some(10)), ("bob", Some(7), None), ("eve", None, Some(1))];
        assert_eq!(rows, expected);
    }

    #[test]
    fn rows_are_sorted_by_hits_denials_rate_and_name() {
        let before = Figures::new(&sample(0, 100, 10), None).unwrap();
        let figures = Figures::new(&sample(1_000, 100, 10), Some(&before)).unwrap();
        assert_eq!(names(&figures.keys, Sort::Hits), ["alice", "bob", "eve"]);
        assert_eq!(names(&figures.keys, Sort::Denied), ["alice", "eve", "bob"]);
        assert_eq!(names(&figures.rules, Sort::Name), ["shop api", "shop quiet"]);
        let faster = Figures::new(&sample(1_000, 0, 0), None).unwrap();
        assert_eq!(names(&faster.rules, Sort::Hits), ["shop quiet", "shop api"]);
        let grown = Figures::new(&sample(2_000, 500, 0), Some(&faster)).unwrap();
        assert_eq!(names(&grown.rules, Sort::Rate), ["shop api", "shop quiet"]);
    }

    #[test]
    fn an_answer_of_another_version_is_an_error() {
        let mut old = sample(0, 1, 1);
        old.rules = json!({"rules": [{"name": "api"}]});
        let error = Figures::new(&old, None).unwrap_err();
        assert!(error.contains("not that of this version: missing field"), "{error}");
    }
}
