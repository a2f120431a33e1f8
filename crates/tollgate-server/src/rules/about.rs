//! What a rule of a domain says beyond its limit.

use std::time::Duration;

/// What Envoy is told about a rule, or what it does to other rules of the same request. Nothing, for rules that are asked for by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// The rate as it was written by unit, where it was: a rule that blocks has no limit to show.
    pub rate: Option<Rate>,
    /// Rules, by their name, that do not hold for a request that this one holds for.
    pub replaces: Vec<String>,
    /// One of several ways to pass: a request is refused only when all rules of it that are quotas refuse.
    pub quota: bool,
    /// What is asked for is charged whether it fits or not: for costs that are known when all is over.
    pub charge: bool,
    /// Handed to Envoy when the rule lets a request pass: an object.
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
}

/// So many requests in each unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many; none if it blocks.
    pub requests: u32,
    /// In each of which.
    pub unit: Unit,
}

/// A unit of time, as Envoy names them. A month is 30 days and a year 365, as in Envoy's own server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// Seven days.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl Unit {
    /// All of them with their names, in order.
    pub const ALL: [(&'static str, Unit); 7] = [
        ("second", Unit::Second),
        ("minute", Unit::Minute),
        ("hour", Unit::Hour),
        ("day", Unit::Day),
        ("week", Unit::Week),
        ("month", Unit::Month),
        ("year", Unit::Year),
    ];

    /// By its name, in any case.
    ///
    /// ```
    /// use tollgate_server::rules::Unit;
    /// assert_eq!(Unit::named("MONTH"), Some(Unit::Month));
    /// assert_eq!(Unit::named("fortnight"), None);
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Option<Unit> {
        Unit::ALL.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, unit)| *unit)
    }

    /// How long it is.
    #[must_use]
    pub fn period(self) -> Duration {
        const HOUR: u64 = 3_600;
        Duration::from_secs(match self {
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => HOUR,
            Unit::Day => 24 * HOUR,
            Unit::Week => 7 * 24 * HOUR,
            Unit::Month => 30 * 24 * HOUR,
            Unit::Year => 365 * 24 * HOUR,
        })
    }
}
