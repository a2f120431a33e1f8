//! The client's side: how long a response asks its client to stay away.
//!
//! These functions never panic, whatever a server sends. The caller must bound absurdly large
//! waits.

use std::time::{Duration, UNIX_EPOCH};

use tollgate::Timestamp;

use crate::forwarded::{split_unquoted, trim};
use crate::head::Lines;

/// Numbers from here on are times in seconds since 1970 and not durations: 2001-09-09, or 32 years.
const UNIX_SECONDS: u64 = 1_000_000_000;

/// Numbers from here on are times in milliseconds.
const UNIX_MILLIS: u64 = 100_000_000_000;

/// How long the client should wait before its next request, if the response says so: `Retry-After`
/// of a 429 or 503, else `RateLimit` with nothing left, else the older headers with nothing left.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Timestamp;
/// use tollgate_http::asked_wait;
///
/// let now = Timestamp::from_micros(0);
/// let headers = |name, value| {
///     http::HeaderMap::from_iter([(
///         http::HeaderName::from_static(name),
///         http::HeaderValue::from_static(value),
///     )])
/// };
/// assert_eq!(asked_wait(429, &headers("retry-after", "3"), now), Some(Duration::from_secs(3)));
/// assert_eq!(asked_wait(200, &headers("ratelimit", r#""api";r=0;t=5"#), now), Some(Duration::from_secs(5)));
/// assert_eq!(asked_wait(200, &headers("ratelimit", r#""api";r=9;t=5"#), now), None);
/// // The status of a job that is not done yet says nothing about other requests.
/// assert_eq!(asked_wait(202, &headers("retry-after", "3"), now), None);
/// ```
#[must_use]
pub fn asked_wait(status: u16, headers: &dyn Lines, now: Timestamp) -> Option<Duration> {
    let refused = matches!(status, 429 | 503);
    let told = headers.line("retry-after").filter(|_| refused);
    told.and_then(|value| retry_after(value, now))
        .or_else(|| rate_limit(&headers.lines("ratelimit")))
        .or_else(|| older(headers, "ratelimit-remaining", "ratelimit-reset", now))
        .or_else(|| older(headers, "x-ratelimit-remaining", "x-ratelimit-reset", now))
}

/// The wait of a `Retry-After` value: seconds, or a date in any HTTP format. A date in the past is
/// no wait.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Timestamp;
/// use tollgate_http::retry_after;
///
/// let now = Timestamp::from_micros(784_111_770_000_000);
/// assert_eq!(retry_after(b"120", now), Some(Duration::from_secs(120)));
/// assert_eq!(retry_after(b"Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(7)));
/// assert_eq!(retry_after(b"soon", now), None);
/// ```
#[must_use]
pub fn retry_after(value: &[u8], now: Timestamp) -> Option<Duration> {
    let value = std::str::from_utf8(trim(value)).ok()?;
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Parsing fails only for a number that is too long.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let since_epoch = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(since_epoch.saturating_sub(Duration::from_micros(now.as_micros())))
}

/// The longest wait of all lines of `RateLimit` that have nothing left: items with parameters as in
/// draft 10, or `remaining=` and `reset=` as in drafts 7 to 9.
///
/// ```
/// use std::time::Duration;
/// use tollgate_http::rate_limit;
///
/// assert_eq!(rate_limit(&[br#""burst";r=0;t=2, "daily";r=0;t=30, "x";r=1;t=99"#]), Some(Duration::from_secs(30)));
/// assert_eq!(rate_limit(&[b"limit=10, remaining=0, reset=4"]), Some(Duration::from_secs(4)));
/// assert_eq!(rate_limit(&[br#""burst";r=0"#]), None);
/// ```
#[must_use]
pub fn rate_limit(lines: &[&[u8]]) -> Option<Duration> {
    let (mut wait, mut remaining, mut reset) = (None, None, None);
    for member in lines.iter().flat_map(|line| split_unquoted(line, b',')) {
        let (mut left, mut until) = (None, None);
        for (index, part) in split_unquoted(member, b';').enumerate() {
            match (index, parameter(part)) {
                (0, Some((b"remaining", value))) => remaining = Some(value),
                (0, Some((b"reset", value))) => reset = Some(value),
                (1.., Some((b"r", value))) => left = Some(value),
                (1.., Some((b"t", value))) => until = Some(value),
                _ => {}
            }
        }
        wait = wait.max(nothing_left(left, until));
    }
    wait.max(nothing_left(remaining, reset)).map(Duration::from_secs)
}

/// A key and a whole number; a negative number becomes zero.
fn parameter(part: &[u8]) -> Option<(&[u8], u64)> {
    let equals = part.iter().position(|byte| *byte == b'=')?;
    let (key, value) = (trim(&part[..equals]), trim(&part[equals + 1..]));
    let value = match value.strip_prefix(b"-") {
        Some(below) => number(below).map(|_| 0)?,
        None => number(value)?,
    };
    Some((key, value))
}

const fn nothing_left(left: Option<u64>, until: Option<u64>) -> Option<u64> {
    match (left, until) {
        (Some(0), until) => until,
        _ => None,
    }
}

/// The wait of the older headers: two numbers, of which the second is a duration or a time.
fn older(headers: &dyn Lines, left: &str, reset: &str, now: Timestamp) -> Option<Duration> {
    let number_of = |name: &str| headers.line(name).and_then(|value| number(trim(value)));
    let reset = nothing_left(number_of(left), number_of(reset))?;
    let now = Duration::from_micros(now.as_micros());
    Some(match reset {
        ..UNIX_SECONDS => Duration::from_secs(reset),
        UNIX_SECONDS..UNIX_MILLIS => Duration::from_secs(reset).saturating_sub(now),
        UNIX_MILLIS.. => Duration::from_millis(reset).saturating_sub(now),
    })
}

/// The number at the start of a value. A fraction is rounded up, and the rest is ignored.
fn number(value: &[u8]) -> Option<u64> {
    let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    let digits = std::str::from_utf8(&value[..end]).ok().filter(|digits| !digits.is_empty())?;
    let whole: u64 = digits.parse().unwrap_or(u64::MAX);
    Some(whole.saturating_add(u64::from(value.get(end) == Some(&b'.'))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate::{ManualClock, Memory};

    use super::*;
    use crate::headers::{Draft, Headers, Reset};

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    fn map(pairs: &[(&'static str, String)]) -> http::HeaderMap {
        let pair = |(name, value): &(&'static str, String)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn wait(pairs: &[(&'static str, &str)]) -> Option<u64> {
        let pairs: Vec<_> =
            pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        asked_wait(429, &map(&pairs), NOW).map(|wait| wait.as_secs())
    }

    #[test]
    fn dates_are_read_in_all_three_forms() {
        let now = Timestamp::from_micros(784_111_770_000_000);
        for date in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(retry_after(date.as_bytes(), now), Some(Duration::from_secs(7)), "{date}");
        }
        assert_eq!(retry_after(b"Sun, 06 Nov 1994 08:49:37 GMT", NOW), Some(Duration::ZERO));
    }

    #[test]
    fn the_reset_of_older_headers_is_a_span_or_a_time() {
        let x = |reset: &str| wait(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", reset)]);
        assert_eq!(x("30"), Some(30));
        assert_eq!(x("1.2"), Some(2), "rounded up");
        assert_eq!(x("1700000030"), Some(30));
        assert_eq!(x("1700000030000"), Some(30));
        assert_eq!(x("1600000000"), Some(0));
        assert_eq!(x("never"), None);
        assert_eq!(wait(&[("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", "30")]), None);
        assert_eq!(wait(&[("ratelimit-remaining", "0"), ("ratelimit-reset", "30")]), Some(30));
    }

    #[test]
    fn retry_after_precedes_the_other_headers_unless_it_is_not_valid() {
        let limit = ("ratelimit", r#""a";r=0;t=9"#);
        assert_eq!(wait(&[("retry-after", "3"), limit]), Some(3));
        assert_eq!(wait(&[("retry-after", "-3"), limit]), Some(9));
        assert_eq!(wait(&[("retry-after", "99999999999999999999")]), Some(u64::MAX));
    }

    #[test]
    fn names_that_look_like_parameters_are_names() {
        assert_eq!(wait(&[("ratelimit", r#""r=0;t=7,\"";r=5;t=9"#)]), None);
        assert_eq!(wait(&[("ratelimit", r#""a" ; r=0 ;t=9"#)]), Some(9));
        assert_eq!(wait(&[("ratelimit", r#""a";r=-1;t=9"#)]), Some(9));
    }

    /// Values between the standard and noise.
    fn value() -> impl Strategy<Value = Vec<u8>> {
        let word = prop::sample::select(vec![
            "\"",
            "\\",
            ";",
            ",",
            "=",
            "r",
            "t",
            "0",
            "9",
            "-",
            ".",
            " ",
            "remaining",
            "reset",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "é",
            "99999999999999999999",
        ]);
        let words =
            prop::collection::vec(word, 0..20).prop_map(|words| words.concat().into_bytes());
        prop_oneof![words, prop::collection::vec(any::<u8>(), 0..60)]
    }

    struct Everywhere(Vec<u8>);

    impl Lines for Everywhere {
        fn line(&self, _: &str) -> Option<&[u8]> {
            Some(&self.0)
        }

        fn lines(&self, _: &str) -> Vec<&[u8]> {
            vec![&self.0, &self.0]
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(value in value(), micros in any::<u64>(), status in any::<u16>()) {
            let now = Timestamp::from_micros(micros);
            let _ = retry_after(&value, now);
            let _ = rate_limit(&[&value]);
            let _ = asked_wait(status, &Everywhere(value), now);
        }

        #[test]
        fn our_own_headers_are_parsed_back(
            millis in 1_u64..10_000_000, form in 0..4, name in "[ -~]{1,12}",
        ) {
            let clock = ManualClock::new(NOW);
            let store = Memory::builder().clock(clock).build();
            let period = Duration::from_millis(millis);
            let limit = tollgate::Limit::new(1, period).name(name);
            let limiter = store.limiter(limit).unwrap();
            let _ = limiter.hit("a");
            let denied = limiter.hit("a");
            let headers = match form {
                0 => Headers::none().retry_after(true),
                1 => Headers::none().rate_limit(Draft::Ten),
                2 => Headers::none().three_fields(),
                _ => Headers::none().x_rate_limit(Reset::UnixTime),
            };
            let mut written = Vec::new();
            headers.write(limiter.limits(), &denied, |name, value| written.push((name, value)));
            let read = asked_wait(429, &map(&written), denied.now());
            prop_assert_eq!(read, Some(Duration::from_secs(millis.div_ceil(1000))));
        }
    }
}
