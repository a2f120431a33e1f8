//! Limits and policies in configuration files and messages. They are written as text, and read from
//! text or from a map.

use std::fmt;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::calendar::CalendarUnit;
use crate::limit::{Algorithm, Limit, LimitBuilder, LimitError};
use crate::policy::Policy;
use crate::text;

impl Serialize for Algorithm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads the name of the algorithm.
impl<'de> Deserialize<'de> for Algorithm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Algorithm, D::Error> {
        struct Word;

        impl Visitor<'_> for Word {
            type Value = Algorithm;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an algorithm such as \"token-bucket\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Algorithm, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Word)
    }
}

/// Reads text, or a map with `quota` and `period` and optionally `algorithm`, `burst`,
/// `charge_denied` and `name`, for calendar limits also `tz`, `start`, `anchor` and `at`. The period
/// is text such as `"2 hours"` or a number of seconds.
///
/// ```
/// # use tollgate::Limit;
/// let text: Limit = serde_json::from_str(r#""10 per 2 hours burst=20""#)?;
/// let map: Limit = serde_json::from_str(r#"{"quota": 10, "period": "2 hours", "burst": 20}"#)?;
/// assert_eq!(text, map);
/// assert_eq!(serde_json::to_string(&map)?, r#""10 per 2 hours burst=20""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Limit, D::Error> {
        struct LimitVisitor;

        impl<'de> Visitor<'de> for LimitVisitor {
            type Value = Limit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a limit: text such as \"10/second\" or a map with quota and period")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Limit, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Limit, A::Error> {
                let fields = Fields::deserialize(MapAccessDeserializer::new(map))?;
                fields.limit().map_err(A::Error::custom)
            }
        }

        either(deserializer, LimitVisitor)
    }
}

/// Reads text, the map of one limit, or a sequence of limits, each as text or as a map.
///
/// ```
/// # use tollgate::Policy;
/// let text: Policy = serde_json::from_str(r#""5/second; 100/hour""#)?;
/// let list: Policy = serde_json::from_str(r#"["5/second", {"quota": 100, "period": 3600}]"#)?;
/// assert_eq!(text, list);
/// # Ok::<(), serde_json::Error>(())
/// ```
impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Policy, D::Error> {
        struct PolicyVisitor;

        impl<'de> Visitor<'de> for PolicyVisitor {
            type Value = Policy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a policy: text such as \"5/second; 100/minute\", a limit or a list")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Policy, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Policy, A::Error> {
                let limit = Limit::deserialize(MapAccessDeserializer::new(map))?;
                Policy::try_from(limit).map_err(A::Error::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Policy, A::Error> {
                let mut limits = Vec::<Limit>::new();
                while let Some(limit) = list.next_element()? {
                    limits.push(limit);
                }
                Policy::new(limits).map_err(A::Error::custom)
            }
        }

        either(deserializer, PolicyVisitor)
    }
}

/// Lets the visitor accept text or a map, if the format is self-describing. Other formats cannot
/// distinguish the two, so there a limit is always text.
fn either<'de, D, V>(deserializer: D, visitor: V) -> Result<V::Value, D::Error>
where
    D: Deserializer<'de>,
    V: Visitor<'de>,
{
    if deserializer.is_human_readable() {
        deserializer.deserialize_any(visitor)
    } else {
        deserializer.deserialize_str(visitor)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(alias = "after")]
    quota: u64,
    period: Period,
    algorithm: Option<Algorithm>,
    burst: Option<u64>,
    #[serde(default)]
    charge_denied: bool,
    name: Option<String>,
    tz: Option<String>,
    start: Option<String>,
    anchor: Option<u8>,
    at: Option<String>,
    /// The length of a ban. A map with this field is a ban.
    r#for: Option<Period>,
    /// The length of the longest ban, if bans double.
    max: Option<Period>,
    #[serde(default)]
    push: bool,
}

impl Fields {
    fn limit(self) -> Result<Limit, LimitError> {
        let Period { span, unit } = self.period;
        let limit = match self.r#for {
            Some(length) => Limit::ban(self.quota, Duration::ZERO, length.span?),
            None => Limit::new(self.quota, Duration::ZERO),
        };
        let limit = self.algorithm.into_iter().fold(limit, LimitBuilder::algorithm);
        let mut limit = limit.period(span, unit)?;
        if let Some(max) = self.max {
            limit = limit.doubling(max.span?);
        }
        if self.push {
            limit = limit.push();
        }
        if let Some(burst) = self.burst {
            limit = limit.burst(burst);
        }
        if self.charge_denied {
            limit = limit.charge_denied();
        }
        if let Some(name) = self.name {
            limit = limit.name(name);
        }
        if let Some(zone) = self.tz {
            limit = limit.zone(zone);
        }
        if let Some(day) = self.start {
            limit = limit.week_start(text::weekday(&day)?);
        }
        if let Some(day) = self.anchor {
            limit = limit.anchor(day);
        }
        if let Some(time) = self.at {
            let (hour, minute) = text::time_of_day(&time)?;
            limit = limit.at(hour, minute);
        }
        limit.build()
    }
}

struct Period {
    span: Result<Duration, LimitError>,
    unit: Option<CalendarUnit>,
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Period, D::Error> {
        struct PeriodVisitor;

        impl Visitor<'_> for PeriodVisitor {
            type Value = Period;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a period: text such as \"2 hours\" or a whole number of seconds")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Period, E> {
                let (span, unit) =
                    text::period(text).map_err(|error| E::custom(format!("period {error}")))?;
                Ok(Period { span, unit })
            }

            fn visit_u64<E: Error>(self, seconds: u64) -> Result<Period, E> {
                Ok(Period { span: Ok(Duration::from_secs(seconds)), unit: None })
            }

            fn visit_i64<E: Error>(self, seconds: i64) -> Result<Period, E> {
                // Some formats, TOML among them, pass every integer as signed.
                let whole = u64::try_from(seconds).map_err(|_| {
                    E::custom(format!("period of {seconds} seconds: must not be negative"))
                })?;
                self.visit_u64(whole)
            }
        }

        deserializer.deserialize_any(PeriodVisitor)
    }
}
