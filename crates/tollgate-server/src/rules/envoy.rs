//! The options of a rule that only Envoy's protocol has.

use std::time::Duration;

/// The options of a rule of a domain beyond its limit. Rules that clients name have none of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvoyOptions {
    /// The rate as the file has it (`unit`, `requests_per_unit`), where it has one. A rule that
    /// blocks has no limit, so its answers show this rate.
    pub rate: Option<Rate>,
    /// Names of rules that are skipped for a request that this rule applies to.
    pub replaces: Vec<String>,
    /// The rule is one of several ways to pass: a request is denied only if all rules of it that
    /// are quotas deny it.
    pub quota: bool,
    /// Hits are charged whether they fit or not: for costs that are known only afterwards.
    pub charge: bool,
    /// An object that Envoy gets when the rule allows a request.
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
}

/// A number of requests for each unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many requests; 0 if the rule blocks.
    pub requests: u32,
    /// The unit of time.
    pub unit: Unit,
}

/// A unit of time by Envoy's names. A month has 30 days and a year 365, as in Envoy's own server.
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
    /// All units with their names, the shortest first.
    pub const ALL: [(&'static str, Unit); 7] = [
        ("second", Unit::Second),
        ("minute", Unit::Minute),
        ("hour", Unit::Hour),
        ("day", Unit::Day),
        ("week", Unit::Week),
        ("month", Unit::Month),
        ("year", Unit::Year),
    ];

    /// The unit of this name, in upper or lower case.
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

    /// How long the unit is.
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
