//! The time zone of stamps that name none, as HAProxy writes them.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// The time zone of stamps that name none.
///
/// ```
/// use tollgate_replay::Zone;
///
/// assert!(Zone::parse("Europe/Berlin").is_ok() && Zone::parse("+02:00").is_ok());
/// assert!(Zone::parse("Mars/Olympus").is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Zone(TimeZone::UTC)
    }
}

impl Zone {
    /// Reads a name such as `UTC` or `Europe/Berlin`, or an offset such as `+02:00`.
    ///
    /// # Errors
    /// When this system knows no zone of that name.
    pub fn parse(text: &str) -> Result<Zone, String> {
        if text.eq_ignore_ascii_case("utc") || text == "Z" {
            return Ok(Zone::default());
        }
        if let Some(seconds) = offset_seconds(text) {
            let offset = Offset::from_seconds(seconds).map_err(|error| error.to_string())?;
            return Ok(Zone(TimeZone::fixed(offset)));
        }
        TimeZone::get(text).map(Zone).map_err(|_| {
            format!("time zone {text:?}: not known; write UTC, an offset such as +02:00, or a name such as Europe/Berlin")
        })
    }

    /// The instant of a local time. Both are in microseconds, the local one as if it were UTC.
    ///
    /// An hour that comes twice, when clocks are set back, is the first one unless the log has
    /// already come `near` the second one.
    ///
    /// ```
    /// let zone = tollgate_replay::Zone::parse("+01:00")?;
    /// assert_eq!(zone.instant(3_600_000_000, 0), Some(0));
    /// # Ok::<(), String>(())
    /// ```
    #[must_use]
    pub fn instant(&self, local: u64, near: u64) -> Option<u64> {
        if let Ok(offset) = self.0.to_fixed_offset() {
            return shifted(local, offset);
        }
        let seconds = i64::try_from(local / 1_000_000).ok()?;
        let civil: DateTime = Offset::UTC.to_datetime(Timestamp::from_second(seconds).ok()?);
        match self.0.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => shifted(local, offset),
            // No clock of that zone showed this time. The zone is wrong, or the clock was.
            AmbiguousOffset::Gap { before, .. } => shifted(local, before),
            AmbiguousOffset::Fold { before, after } => {
                let (first, second) = (shifted(local, before)?, shifted(local, after)?);
                let is_second = near >= first.midpoint(second);
                Some(if is_second { second } else { first })
            }
        }
    }
}

fn shifted(local: u64, offset: Offset) -> Option<u64> {
    let east = SignedDuration::from_secs(i64::from(offset.seconds())).as_micros();
    u64::try_from(i128::from(local) - east).ok()
}

/// `+02:00`, `-0530`, `+02` in seconds.
fn offset_seconds(text: &str) -> Option<i32> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let digits = digits.replacen(':', "", 1);
    if !matches!(digits.len(), 2 | 4) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let hours: i32 = digits[..2].parse().ok()?;
    let minutes: i32 = digits.get(2..4).unwrap_or("00").parse().ok()?;
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instant(zone: &str, local: &str, near: u64) -> u64 {
        let local = crate::parse_time(local.as_bytes()).unwrap().micros;
        Zone::parse(zone).unwrap().instant(local, near).unwrap() / 1_000_000
    }

    #[test]
    fn local_times_become_instants() {
        let noon = crate::parse_time(b"2026-10-10T12:00:00Z").unwrap().micros / 1_000_000;
        for (zone, local) in [
            ("UTC", "2026-10-10T12:00:00"),
            ("+02:00", "2026-10-10T14:00:00"),
            ("-0530", "2026-10-10T06:30:00"),
            ("Europe/Berlin", "2026-10-10T14:00:00"),
        ] {
            assert_eq!(instant(zone, local, 0), noon, "{zone}");
        }
    }

    #[test]
    fn the_hour_that_comes_twice_goes_on_where_the_log_is() {
        let first = instant("Europe/Berlin", "2026-10-25T02:30:00", 0);
        assert_eq!(instant("+02:00", "2026-10-25T02:30:00", 0), first);
        // The log has reached 02:59:59 of summer time.
        let near = (first + 1_799) * 1_000_000;
        assert_eq!(instant("Europe/Berlin", "2026-10-25T02:30:00", near), first);
        assert_eq!(instant("Europe/Berlin", "2026-10-25T02:00:00", near), first + 1_800);
        // The hour that does not exist in spring is read with the offset before it.
        let gap = instant("Europe/Berlin", "2026-03-29T02:30:00", 0);
        assert_eq!(gap, instant("+01:00", "2026-03-29T02:30:00", 0));
    }

    #[test]
    fn unknown_zones_are_refused() {
        for bad in ["", "+", "+2", "+25:00", "+02:60", "Nowhere", "+1é", "+02:0x"] {
            let error = Zone::parse(bad).unwrap_err();
            assert!(error.contains("not known"), "{bad}: {error}");
        }
    }
}
