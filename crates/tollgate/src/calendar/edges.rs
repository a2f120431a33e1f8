//! The edges of calendar windows.
//!
//! A unit begins on a date at a time of the day: a day on each date, a month on its anchor. The
//! *edge* is the first instant at which the clocks of the zone show that time or a later one.
//! Where clocks are set forward over it, that is the instant at which they are set; where they are
//! set back and show it twice, it is the first of both. So a day may have 23 or 25 hours, and a day
//! that a zone has left out has no length: it does not exist.
//!
//! ```text
//! 2018-11-03 in Sao Paulo   23:59:59 -> 01:00:00    midnight is left out: the edge is 01:00
//! 2011-12-29 in Apia        23:59:59 -> 12-31 00:00 the window of 12-30 would have no length
//! ```

use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, Offset};
use jiff::{Span, Timestamp as Instant};

use super::zones;
use super::{Calendar, CalendarUnit};
use crate::time::Timestamp;

const MICROS: u64 = 1_000_000;

/// The last edge, in seconds.
const LAST: u64 = super::LAST_EDGE / MICROS;

/// Returns the edges of the windows before, at and after `at`.
pub(super) fn around(calendar: &Calendar, at: Timestamp) -> [Timestamp; 4] {
    let second = at.as_micros() / MICROS;
    let edges = if second >= LAST {
        [calendar.before(LAST), LAST, u64::MAX, u64::MAX]
    } else {
        let (number, start, end) = calendar.find(second);
        let next = if end == LAST { u64::MAX } else { calendar.edge_after(number + 1, end) };
        [calendar.before(start), start, end, next]
    };
    edges.map(|second| Timestamp::from_micros(second.saturating_mul(MICROS)))
}

impl Calendar {
    /// Returns the number of the window that contains a second, and its edges.
    fn find(&self, second: u64) -> (i64, u64, u64) {
        let mut number = self.guess(second);
        // The guess may be one off: it knows neither the time of the day nor changed clocks.
        while number > 0 && self.edge(number) > second {
            number -= 1;
        }
        let mut start = self.edge(number);
        loop {
            let end = self.edge(number + 1);
            if second < end {
                return (number, start, end);
            }
            (number, start) = (number + 1, end);
        }
    }

    /// Returns the start of the window that ends with this edge.
    fn before(&self, edge: u64) -> u64 {
        edge.checked_sub(1).map_or(0, |second| self.find(second).1)
    }

    /// Returns the first edge from this number on that is later than another edge.
    fn edge_after(&self, mut number: i64, edge: u64) -> u64 {
        loop {
            number += 1;
            match self.edge(number) {
                next if next > edge => return next,
                // No windows follow the last edge.
                _ if edge >= LAST => return u64::MAX,
                _ => {}
            }
        }
    }

    /// Returns the number of the unit whose first date is at or before the date of a second. Days
    /// and weeks count from 1969-12-01, the others from the year 1969, so that all are positive.
    fn guess(&self, second: u64) -> i64 {
        let instant = instant(second);
        let date = zones::rules(self.zone).to_datetime(instant).date();
        let (year, month) = (i64::from(date.year()) - 1969, i64::from(date.month()) - 1);
        match self.unit {
            CalendarUnit::Day => days(first_day(), date),
            CalendarUnit::Week => days(self.first_week(), date).div_euclid(7),
            CalendarUnit::Month => year * 12 + month,
            CalendarUnit::Quarter => year * 4 + month / 3,
            CalendarUnit::Year => year,
        }
    }

    /// Returns the first instant of a unit, in seconds since 1970, at least 0 and at most [`LAST`].
    fn edge(&self, number: i64) -> u64 {
        let year = |units: i64| i16::try_from(1969 + number.div_euclid(units)).unwrap_or(9_999);
        let date = match self.unit {
            CalendarUnit::Day => later(first_day(), number),
            CalendarUnit::Week => later(self.first_week(), number.saturating_mul(7)),
            CalendarUnit::Month => {
                let first = date(year(12), number.rem_euclid(12) + 1, 1);
                let anchor = i8::try_from(self.anchor).unwrap_or(i8::MAX);
                date(first.year(), i64::from(first.month()), anchor.min(first.days_in_month()))
            }
            CalendarUnit::Quarter => date(year(4), 3 * number.rem_euclid(4) + 1, 1),
            CalendarUnit::Year => date(year(1), 1, 1),
        };
        let (hour, minute) = self.at();
        let time = Time::new(hour as i8, minute as i8, 0, 0).unwrap_or(Time::midnight());
        let second = self.first_instant(date.to_datetime(time)).as_second();
        u64::try_from(second).unwrap_or(0).min(LAST)
    }

    /// Returns the first instant at which the clocks of the zone show this time or a later one.
    fn first_instant(&self, time: jiff::civil::DateTime) -> Instant {
        let zone = zones::rules(self.zone);
        let at = |offset: Offset| offset.to_timestamp(time).unwrap_or(Instant::MAX);
        let (mut shows_earlier, mut shows_later) = match zone.to_ambiguous_timestamp(time).offset()
        {
            AmbiguousOffset::Unambiguous { offset } => return at(offset),
            AmbiguousOffset::Fold { before, .. } => return at(before),
            AmbiguousOffset::Gap { before, after } => {
                (at(after).as_second(), at(before).as_second())
            }
        };
        // The clocks are set forward between these two.
        while shows_later - shows_earlier > 1 {
            let middle = shows_earlier + (shows_later - shows_earlier) / 2;
            let instant = Instant::from_second(middle).unwrap_or(Instant::MAX);
            if zone.to_datetime(instant) < time {
                shows_earlier = middle;
            } else {
                shows_later = middle;
            }
        }
        Instant::from_second(shows_later).unwrap_or(Instant::MAX)
    }

    /// The first day of a week in December 1969. The 1st was a Monday.
    fn first_week(&self) -> Date {
        later(first_day(), self.start as i64)
    }
}

fn first_day() -> Date {
    Date::constant(1969, 12, 1)
}

fn date(year: i16, month: i64, day: i8) -> Date {
    Date::new(year, i8::try_from(month).unwrap_or(1), day).unwrap_or(Date::MAX)
}

fn later(date: Date, days: i64) -> Date {
    Span::new().try_days(days).and_then(|days| date.checked_add(days)).unwrap_or(Date::MAX)
}

fn days(from: Date, to: Date) -> i64 {
    from.duration_until(to).as_hours() / 24
}

fn instant(second: u64) -> Instant {
    i64::try_from(second).ok().and_then(|s| Instant::from_second(s).ok()).unwrap_or(Instant::MAX)
}
