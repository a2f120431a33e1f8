//! Timestamps as logs write them, as microseconds since the Unix epoch.

/// A time in a log, and how exactly the log states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Microseconds since the Unix epoch.
    pub micros: u64,
    /// The log states whole seconds only: the request was made somewhere in this second.
    pub whole_second: bool,
    /// The log names no time zone: these are microseconds of a local time.
    pub is_local: bool,
}

/// Reads a time in any of the usual forms: `10/Oct/2026:13:55:36 +0000` (with or without
/// milliseconds and zone), ISO 8601 (a stamp without a zone is taken as UTC), or a number of
/// seconds, milliseconds, microseconds or nanoseconds since the epoch, which are distinguished by
/// their size.
///
/// ```
/// use tollgate_replay::parse_time;
///
/// let stamp = parse_time(b"10/Oct/2026:13:55:36 +0200").unwrap();
/// assert_eq!((stamp.micros, stamp.whole_second), (1_791_633_336_000_000, true));
/// assert_eq!(parse_time(b"2026-10-10T11:55:36.250Z").unwrap().micros, 1_791_633_336_250_000);
/// assert_eq!(parse_time(b"1791633336.250").unwrap().micros, 1_791_633_336_250_000);
/// ```
#[must_use]
pub fn parse_time(text: &[u8]) -> Option<Stamp> {
    let mut reader = Reader(text);
    match text {
        [_, _, _, _, b'-', ..] => iso(&mut reader),
        [_, _, b'/', ..] | [_, b'/', ..] => common_log(&mut reader),
        _ => epoch(text),
    }
}

/// `2026-10-10T13:55:36.250+02:00`, with a blank instead of the `T`, with a comma instead of the
/// point, without a zone for UTC.
fn iso(reader: &mut Reader<'_>) -> Option<Stamp> {
    let year = reader.number(4)?;
    reader.expect(b'-')?;
    let month = reader.number(2)?;
    reader.expect(b'-')?;
    let day = reader.number(2)?;
    match reader.next()? {
        b'T' | b't' | b' ' => {}
        _ => return None,
    }
    clock_time(reader, year, month, day)
}

/// `10/Oct/2026:13:55:36 +0000`.
fn common_log(reader: &mut Reader<'_>) -> Option<Stamp> {
    let day = match reader.0 {
        [_, b'/', ..] => reader.number(1)?,
        _ => reader.number(2)?,
    };
    reader.expect(b'/')?;
    let (name, rest) = reader.0.split_at_checked(3)?;
    reader.0 = rest;
    const NAMES: [&[u8; 3]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let month = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))? as u64 + 1;
    reader.expect(b'/')?;
    let year = reader.number(4)?;
    reader.expect(b':')?;
    clock_time(reader, year, month, day)
}

/// The hours and everything after them.
fn clock_time(reader: &mut Reader<'_>, year: u64, month: u64, day: u64) -> Option<Stamp> {
    let hour = reader.number(2)?;
    reader.expect(b':')?;
    let minute = reader.number(2)?;
    reader.expect(b':')?;
    let second = reader.number(2)?;
    // 60 is a leap second.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let fraction = match reader.0 {
        [b'.' | b',', ..] => {
            reader.next();
            Some(reader.fraction()?)
        }
        _ => None,
    };
    let zone = zone_seconds(reader)?;
    let is_local = zone.is_none();
    let zone = zone.unwrap_or(0);
    let days = days_from_epoch(year, month, day)?;
    let seconds = i64::try_from(days * 86_400 + hour * 3_600 + minute * 60 + second).ok()? - zone;
    let micros = u64::try_from(seconds).ok()?.checked_mul(1_000_000)? + fraction.unwrap_or(0);
    Some(Stamp { micros, whole_second: fraction.is_none(), is_local })
}

/// Seconds east of Greenwich: `Z`, `+0200`, `+02:00`, `+02`; `None` where the stamp names no zone.
fn zone_seconds(reader: &mut Reader<'_>) -> Option<Option<i64>> {
    if let [b' ', ..] = reader.0 {
        reader.next();
    }
    let sign = match reader.next() {
        None => return Some(None),
        Some(b'Z' | b'z') => return reader.0.is_empty().then_some(Some(0)),
        Some(b'+') => 1,
        Some(b'-') => -1,
        Some(_) => return None,
    };
    let hours = reader.number(2)?;
    if let [b':', ..] = reader.0 {
        reader.next();
    }
    let minutes = if reader.0.is_empty() { 0 } else { reader.number(2)? };
    if hours > 23 || minutes > 59 || !reader.0.is_empty() {
        return None;
    }
    i64::try_from(hours * 3_600 + minutes * 60).ok().map(|seconds| Some(sign * seconds))
}

/// Reads a count of seconds with decimals, or a whole number whose size determines its unit: a
/// number that would be after the year 5138 in one unit has the next smaller unit.
fn epoch(text: &[u8]) -> Option<Stamp> {
    let point = memchr::memchr(b'.', text);
    let (whole, decimals) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    if whole.is_empty() || whole.len() > 19 {
        return None;
    }
    let number = Reader(whole).number(whole.len())?;
    const LARGEST: u64 = 100_000_000_000;
    let unit = match number / LARGEST {
        0 => 1_000_000,
        1..1_000 => 1_000,
        1_000..1_000_000 => 1,
        _ => {
            let micros = number / 1_000;
            return Some(Stamp { micros, whole_second: false, is_local: false });
        }
    };
    let fraction = if point.is_none() { 0 } else { Reader(decimals).fraction()? };
    let micros = number.checked_mul(unit)?.checked_add(fraction * unit / 1_000_000)?;
    let whole_second = unit == 1_000_000 && point.is_none();
    Some(Stamp { micros, whole_second, is_local: false })
}

/// Days since 1970-01-01 of a date from then on. Years begin in March here, so that the leap day is
/// the last of its year.
fn days_from_epoch(year: u64, month: u64, day: u64) -> Option<u64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let longest = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year < 1970 || day == 0 || day > longest {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    // 1970-01-01 in this count.
    days.checked_sub(719_468)
}

/// The rest of the text.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// Reads a number of exactly `digits` digits.
    fn number(&mut self, digits: usize) -> Option<u64> {
        let (text, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        text.iter().try_fold(0_u64, |number, digit| {
            let digit = u64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
            number.checked_mul(10)?.checked_add(digit)
        })
    }

    /// Decimals as microseconds; those after the sixth are dropped.
    fn fraction(&mut self) -> Option<u64> {
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (text, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        if text.is_empty() {
            return None;
        }
        let padded = text.iter().copied().chain(std::iter::repeat(b'0')).take(6);
        Some(padded.fold(0, |micros, digit| micros * 10 + u64::from(digit - b'0')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> Option<u64> {
        parse_time(text.as_bytes()).map(|stamp| stamp.micros)
    }

    #[test]
    fn all_forms_of_one_instant_are_equal() {
        let instant = Some(1_791_640_536_000_000);
        for text in [
            "10/Oct/2026:13:55:36 +0000",
            "10/Oct/2026:15:55:36 +0200",
            "10/Oct/2026:13:55:36",
            "10/oct/2026:08:55:36 -0500",
            "2026-10-10T13:55:36Z",
            "2026-10-10 13:55:36",
            "2026-10-10T13:55:36.000Z",
            "2026-10-10T15:55:36+02:00",
            "2026-10-10T15:55:36+02",
            "2026-10-10T13:55:36,000",
            "1791640536",
            "1791640536.000",
            "1791640536000",
            "1791640536000000",
            "1791640536000000000",
        ] {
            assert_eq!(micros(text), instant, "{text}");
        }
    }

    #[test]
    fn decimals_are_kept_to_the_microsecond() {
        assert_eq!(micros("1791640536.25"), Some(1_791_640_536_250_000));
        assert_eq!(micros("1791640536250.5"), Some(1_791_640_536_250_500));
        assert_eq!(micros("2026-10-10T13:55:36.123456789Z"), Some(1_791_640_536_123_456));
        assert_eq!(micros("06/Feb/2009:12:14:14.655"), Some(1_233_922_454_655_000));
    }

    #[test]
    fn only_stamps_without_decimals_are_whole_seconds() {
        for (text, whole) in [
            ("10/Oct/2026:13:55:36 +0000", true),
            ("2026-10-10T13:55:36Z", true),
            ("1791640536", true),
            ("1791640536.0", false),
            ("1791640536000", false),
            ("2026-10-10T13:55:36.0Z", false),
        ] {
            assert_eq!(parse_time(text.as_bytes()).unwrap().whole_second, whole, "{text}");
        }
    }

    #[test]
    fn stamps_without_a_zone_are_local() {
        for (text, is_local) in [
            ("06/Feb/2009:12:14:14.655", true),
            ("2026-10-10 13:55:36", true),
            ("2026-10-10T13:55:36Z", false),
            ("10/Oct/2026:13:55:36 +0000", false),
            ("1791640536", false),
        ] {
            assert_eq!(parse_time(text.as_bytes()).unwrap().is_local, is_local, "{text}");
        }
    }

    #[test]
    fn dates_that_do_not_exist_are_refused() {
        for text in [
            "",
            "-",
            "x",
            "31/Feb/2026:00:00:00 +0000",
            "10/Xxx/2026:13:55:36 +0000",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00+2x",
            "1.",
            "12a",
            "99999999999999999999",
            "1969-12-31T23:59:59Z",
        ] {
            assert_eq!(micros(text), None, "{text}");
        }
        assert!(micros("2024-02-29T00:00:00Z").is_some());
    }

    proptest::proptest! {
        #[test]
        fn days_follow_each_other(days in 0_u64..60_000) {
            // The inverse, by walking months.
            let (mut left, mut year, mut month) = (days, 1970, 1);
            loop {
                let length = (28..=31).rev().find(|day| days_from_epoch(year, month, *day).is_some());
                let length = length.unwrap();
                if left < length { break }
                left -= length;
                (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            }
            proptest::prop_assert_eq!(days_from_epoch(year, month, left + 1), Some(days));
        }

        #[test]
        fn a_printed_time_is_parsed_back(seconds in 0_u64..5_000_000_000) {
            let text = tollgate_report::utc(seconds * 1_000_000);
            proptest::prop_assert_eq!(micros(&text), Some(seconds * 1_000_000));
        }

        #[test]
        fn no_text_makes_it_panic(text in proptest::collection::vec(proptest::num::u8::ANY, 0..40)) {
            let _ = parse_time(&text);
        }
    }
}
