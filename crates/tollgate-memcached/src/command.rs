//! Encodes meta commands. Each ends with its opaque token, `O`.

use std::time::Duration;

use tollgate::{Timestamp, seconds_up};

/// The item that a `set` may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The item must not exist.
    Nothing,
    /// The item must have this version.
    Cas(u64),
}

/// The server reads larger numbers as points in time, in seconds.
const MONTH: u64 = 30 * 24 * 3600;

/// The last point in time that a server can read, in seconds since 1970: in January 2038.
const LAST: u64 = i32::MAX as u64;

/// Added to a TTL in seconds: the server's clock ticks once a second and may end it too early, and
/// rounding takes some.
const TICKS: u64 = 2;

/// Added where a point in time is sent instead of a span, in seconds: the clocks of server and
/// client may differ.
const APART: u64 = 60;

/// A life of at least this, a hundred thousand years, has no end: that of a budget.
const FOR_EVER: Duration = Duration::from_secs(100_000 * 365 * 24 * 3_600);

/// The `T` of an item that does not expire.
const NEVER: u64 = 0;

/// The `T` of an item that must live for this long.
pub(crate) fn ttl(keep: Duration, now: Timestamp) -> u64 {
    if keep >= FOR_EVER {
        return NEVER;
    }
    let span = seconds_up(keep).saturating_add(TICKS);
    if span <= MONTH {
        return span;
    }
    // An item that should live longer ends at the last point in time: see `holds`.
    (now.as_micros() / 1_000_000).saturating_add(span).saturating_add(APART).min(LAST)
}

/// Whether an item can live for this long.
pub(crate) fn holds(keep: Duration, now: Timestamp) -> bool {
    ttl(keep, now) < LAST
}

/// `ms`: writes a value.
pub(crate) fn set(
    out: &mut Vec<u8>,
    name: &[u8],
    value: &[u8],
    ttl: u64,
    expected: Expected,
    opaque: u32,
) {
    out.extend_from_slice(b"ms ");
    out.extend_from_slice(name);
    number(out, b" ", value.len() as u64);
    number(out, b" T", ttl);
    number(out, b" c O", opaque.into());
    match expected {
        // The mode `add`.
        Expected::Nothing => out.extend_from_slice(b" ME"),
        Expected::Cas(cas) => number(out, b" C", cas),
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// `mg`: reads the value and its version.
pub(crate) fn get(out: &mut Vec<u8>, name: &[u8], opaque: u32) {
    out.extend_from_slice(b"mg ");
    out.extend_from_slice(name);
    number(out, b" v c O", opaque.into());
    out.extend_from_slice(b"\r\n");
}

/// `md`: deletes an item, of one version or of any.
pub(crate) fn delete(out: &mut Vec<u8>, name: &[u8], cas: Option<u64>, opaque: u32) {
    out.extend_from_slice(b"md ");
    out.extend_from_slice(name);
    if let Some(cas) = cas {
        number(out, b" C", cas);
    }
    number(out, b" O", opaque.into());
    out.extend_from_slice(b"\r\n");
}

/// `mn`: does nothing, and gets an answer.
pub(crate) fn nothing(out: &mut Vec<u8>, _opaque: u32) {
    out.extend_from_slice(b"mn\r\n");
}

/// `stats`: asks for statistics.
pub(crate) fn stats(out: &mut Vec<u8>, _opaque: u32) {
    out.extend_from_slice(b"stats\r\n");
}

/// Appends a text and a number. Written by hand, because formatting takes as long as the rest of a
/// command.
fn number(out: &mut Vec<u8>, text: &[u8], mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(text);
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn commands_are_written_as_the_protocol_requires() {
        let add = text(|out| set(out, b"k", b"hi", 5, Expected::Nothing, 7));
        assert_eq!(add, "ms k 2 T5 c O7 ME\r\nhi\r\n");
        let swap = text(|out| set(out, b"k", b"", 5, Expected::Cas(9), 7));
        assert_eq!(swap, "ms k 0 T5 c O7 C9\r\n\r\n");
        assert_eq!(text(|out| get(out, b"k", 7)), "mg k v c O7\r\n");
        assert_eq!(text(|out| delete(out, b"k", Some(9), 7)), "md k C9 O7\r\n");
        assert_eq!(text(|out| delete(out, b"k", None, 7)), "md k O7\r\n");
    }

    #[test]
    fn every_digit_of_a_number_is_written() {
        for n in [0, 7, 10, 1_000_000_007, u64::MAX] {
            assert_eq!(text(|out| number(out, b"n", n)), format!("n{n}"));
        }
    }

    #[test]
    fn a_ttl_is_never_too_short_and_never_read_as_a_time() {
        let now = Timestamp::from_micros(1_790_000_000_000_000);
        let days = |days: u64| Duration::from_secs(days * 24 * 3600);
        assert_eq!(ttl(Duration::ZERO, now), 2, "0 would be for ever");
        assert_eq!(ttl(Duration::from_millis(1), now), 3);
        assert_eq!(ttl(Duration::from_millis(1500), now), 4);
        assert_eq!(ttl(days(30) - Duration::from_secs(2), now), MONTH);
        assert_eq!(ttl(days(30), now), 1_790_000_000 + MONTH + 62, "a time");
        assert_eq!(ttl(days(365), now), 1_790_000_000 + 365 * 24 * 3600 + 62);
        assert_eq!(ttl(days(36_500), now), LAST);
        assert_eq!(ttl(FOR_EVER - Duration::from_secs(1), now), LAST);
        assert_eq!(ttl(FOR_EVER, now), NEVER, "a budget");
        assert!(holds(days(4000), now) && !holds(days(5000), now));
    }
}
