//! Spans of time as people write them: `500ms`, `10s`, `5m`, `1h`.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Reads a span.
///
/// ```
/// use std::time::Duration;
/// use tollgate_server::settings::span;
/// assert_eq!(span::parse("1500ms"), Ok(Duration::from_millis(1_500)));
/// assert_eq!(span::parse("5m"), Ok(Duration::from_secs(300)));
/// assert!(span::parse("5").is_err());
/// ```
///
/// # Errors
/// When it is none.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("{text:?} is no span of time: expected a number and ms, s, m or h, as in 10s");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let millis = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(wrong)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(from)?).map_err(D::Error::custom)
}

pub(super) mod optional {
    use super::{Deserializer, Duration};

    pub(in crate::settings) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        super::deserialize(from).map(Some)
    }
}
