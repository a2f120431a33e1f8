//! Durations in the text form of limits: `500ms`, `10s`, `2 hours`.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Parses a duration.
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
/// When the text is not a duration.
pub fn parse(text: &str) -> Result<Duration, String> {
    tollgate::text::span(text).map_err(|error| format!("{text:?} is not a duration: {error}"))
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
