//! Numbers, shares and times as people write them.

/// A number with commas.
///
/// ```
/// assert_eq!(tollgate_report::grouped(1_234_567), "1,234,567");
/// ```
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A part of a whole in per cent with two decimals. Only nothing is `0 %`, and only all is `100 %`.
///
/// ```
/// use tollgate_report::percent;
/// assert_eq!([percent(1, 3), percent(1, 1_000_000)], ["33.33 %", "< 0.01 %"]);
/// ```
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0 %".to_owned();
    }
    let hundredths = u128::from(part) * 10_000 / u128::from(whole);
    match hundredths {
        0 => "< 0.01 %".to_owned(),
        10_000 => "100 %".to_owned(),
        _ => format!("{}.{:02} %", hundredths / 100, hundredths % 100),
    }
}

/// A time, in microseconds since the epoch, as UTC to the second: `2026-10-10 13:55:36`.
///
/// ```
/// assert_eq!(tollgate_report::utc(1_791_640_536_000_000), "2026-10-10 13:55:36");
/// ```
#[must_use]
pub fn utc(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years start in March here, from the year 0 on.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// A span of microseconds as people say it: `1 minute`, `90 seconds`, `250 ms`.
///
/// ```
/// use tollgate_report::span;
/// assert_eq!([span(60_000_000), span(90_000_000), span(1_500_000)], ["1 minute", "90 seconds", "1500 ms"]);
/// ```
#[must_use]
pub fn span(micros: u64) -> String {
    let units = [
        (86_400_000_000, "day"),
        (3_600_000_000, "hour"),
        (60_000_000, "minute"),
        (1_000_000, "second"),
    ];
    for (unit, name) in units {
        if micros >= unit && micros.is_multiple_of(unit) {
            return match micros / unit {
                1 => format!("1 {name}"),
                many => format!("{many} {name}s"),
            };
        }
    }
    match micros {
        1_000.. if micros.is_multiple_of(1_000) => format!("{} ms", micros / 1_000),
        0 => "0 s".to_owned(),
        _ => format!("{micros} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nothing_is_no_share_and_only_all_is_the_whole() {
        assert_eq!(percent(999_999, 1_000_000), "99.99 %");
        assert_eq!(percent(5, 5), "100 %");
        assert_eq!([percent(0, 0), percent(0, 9)], ["0 %", "0 %"]);
        assert_eq!([1, 1_000].map(grouped), ["1", "1,000"]);
    }
}
