//! Calendars: which windows of days, weeks, months, quarters and years a limit counts in.
//!
//! A [`Calendar`] is plain data. Its windows tile the time: `zones.rs` knows the rules of the time
//! zones, `edges.rs` computes the edges of windows from them, and `cache.rs` remembers the window
//! that is open now, so that a hit computes no edge.

mod cache;
#[cfg(feature = "calendar")]
mod edges;
mod zone;
#[cfg(feature = "calendar")]
mod zones;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

pub(crate) use cache::Windows;
pub(crate) use zone::{UnknownZone, Zone};
#[cfg(feature = "calendar")]
pub use zones::{ZoneData, zone_data};

use crate::clock::{Clock, SystemClock};
use crate::keyed::lock;
use crate::limit::Limit;
use crate::time::Timestamp;

const DAY: u64 = 86_400_000_000;

/// The last edge, in the year 9987: the rules of zones end with the year 9999. The window that
/// begins here never ends.
pub(crate) const LAST_EDGE: u64 = 253_000_000_000_000_000;

/// The length of a calendar window.
///
/// ```
/// use tollgate::{CalendarUnit, Limit};
/// let limit = Limit::per_calendar(10_000, CalendarUnit::Month).build()?;
/// assert_eq!(limit.to_string(), "10000/month calendar");
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// A day: 23 to 25 hours where clocks are changed.
    Day,
    /// Seven days.
    Week,
    /// A month.
    Month,
    /// Three months, from January, April, July and October on.
    Quarter,
    /// A year.
    Year,
}

impl CalendarUnit {
    /// All units, the shortest first.
    pub const ALL: [CalendarUnit; 5] = [
        CalendarUnit::Day,
        CalendarUnit::Week,
        CalendarUnit::Month,
        CalendarUnit::Quarter,
        CalendarUnit::Year,
    ];

    /// Returns the name in text.
    ///
    /// ```
    /// assert_eq!(tollgate::CalendarUnit::Quarter.name(), "quarter");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CalendarUnit::Day => "day",
            CalendarUnit::Week => "week",
            CalendarUnit::Month => "month",
            CalendarUnit::Quarter => "quarter",
            CalendarUnit::Year => "year",
        }
    }

    /// Returns the period of a limit with this unit, in microseconds: the longest window of it,
    /// apart from changed clocks. It identifies the unit.
    pub(crate) const fn period(self) -> u64 {
        match self {
            CalendarUnit::Day => DAY,
            CalendarUnit::Week => 7 * DAY,
            CalendarUnit::Month => 31 * DAY,
            CalendarUnit::Quarter => 92 * DAY,
            CalendarUnit::Year => 366 * DAY,
        }
    }
}

impl fmt::Display for CalendarUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A day of the week.
///
/// ```
/// assert_eq!("sunday".parse(), Ok(tollgate::Weekday::Sunday));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are the days")]
pub enum Weekday {
    #[default]
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

impl Weekday {
    const ALL: [Weekday; 7] = [
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
        Weekday::Sunday,
    ];

    /// Returns the name in text.
    ///
    /// ```
    /// assert_eq!(tollgate::Weekday::Sunday.name(), "sunday");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Weekday::Monday => "monday",
            Weekday::Tuesday => "tuesday",
            Weekday::Wednesday => "wednesday",
            Weekday::Thursday => "thursday",
            Weekday::Friday => "friday",
            Weekday::Saturday => "saturday",
            Weekday::Sunday => "sunday",
        }
    }
}

/// The text is not a day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAWeekday;

impl fmt::Display for NotAWeekday {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a day from monday to sunday")
    }
}

impl std::error::Error for NotAWeekday {}

/// Reads the name of a day, in any case, in full or its first three letters.
impl FromStr for Weekday {
    type Err = NotAWeekday;

    fn from_str(text: &str) -> Result<Weekday, NotAWeekday> {
        let is = |day: &Weekday| {
            let name = day.name();
            name.eq_ignore_ascii_case(text) || name[..3].eq_ignore_ascii_case(text)
        };
        Weekday::ALL.into_iter().find(is).ok_or(NotAWeekday)
    }
}

/// The windows of a calendar limit: their unit, their time zone, and where in the unit they begin.
///
/// ```
/// use tollgate::{CalendarUnit, Limit};
///
/// let limit: Limit = "10000/month calendar tz=Europe/Berlin anchor=15".parse()?;
/// let calendar = limit.calendar().expect("the limit has a calendar");
/// assert_eq!((calendar.unit(), calendar.zone()), (CalendarUnit::Month, "Europe/Berlin"));
/// assert_eq!(calendar.anchor(), 15);
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Calendar {
    pub(crate) unit: CalendarUnit,
    pub(crate) zone: Zone,
    /// The first day of weeks.
    pub(crate) start: Weekday,
    /// The first day of months, from 1 to 31. In shorter months it is the last day.
    pub(crate) anchor: u8,
    /// The minute of the day at which windows begin.
    pub(crate) minute: u16,
}

impl Calendar {
    /// Returns the calendar of whole units in UTC.
    pub(crate) const fn of(unit: CalendarUnit) -> Calendar {
        Calendar { unit, zone: Zone::UTC, start: Weekday::Monday, anchor: 1, minute: 0 }
    }

    /// Returns the unit.
    ///
    /// ```
    /// # use tollgate::{CalendarUnit, Limit};
    /// let limit = Limit::per_calendar(5, CalendarUnit::Year).build()?;
    /// assert_eq!(limit.calendar().map(|c| c.unit()), Some(CalendarUnit::Year));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// Returns the name of the time zone.
    ///
    /// ```
    /// # use tollgate::{CalendarUnit, Limit};
    /// let limit = Limit::per_calendar(5, CalendarUnit::Day).zone("asia/tokyo").build()?;
    /// assert_eq!(limit.calendar().map(|c| c.zone()), Some("Asia/Tokyo"));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn zone(&self) -> &'static str {
        self.zone.name()
    }

    /// Returns the first day of weeks.
    ///
    /// ```
    /// # use tollgate::{CalendarUnit, Limit, Weekday};
    /// let limit = Limit::per_calendar(5, CalendarUnit::Week).week_start(Weekday::Sunday).build()?;
    /// assert_eq!(limit.calendar().map(|c| c.week_start()), Some(Weekday::Sunday));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn week_start(&self) -> Weekday {
        self.start
    }

    /// Returns the first day of months, from 1 to 31. In shorter months it is the last day.
    ///
    /// ```
    /// # use tollgate::{CalendarUnit, Limit};
    /// let limit = Limit::per_calendar(5, CalendarUnit::Month).anchor(31).build()?;
    /// assert_eq!(limit.calendar().map(|c| c.anchor()), Some(31));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn anchor(&self) -> u8 {
        self.anchor
    }

    /// Returns the hour and the minute at which windows begin.
    ///
    /// ```
    /// # use tollgate::{CalendarUnit, Limit};
    /// let limit = Limit::per_calendar(5, CalendarUnit::Day).at(6, 30).build()?;
    /// assert_eq!(limit.calendar().map(|c| c.at()), Some((6, 30)));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn at(&self) -> (u8, u8) {
        ((self.minute / 60) as u8, (self.minute % 60) as u8)
    }

    /// Returns the start and the end of the window that contains this time.
    ///
    /// ```
    /// use tollgate::{Limit, Timestamp};
    /// let limit: Limit = "5/day calendar tz=Asia/Tokyo".parse()?;
    /// let (start, end) = limit.calendar().unwrap().window(Timestamp::from_micros(86_400_000_000));
    /// assert_eq!((start.as_micros(), end.as_micros()), (54_000_000_000, 140_400_000_000));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn window(&self, at: Timestamp) -> (Timestamp, Timestamp) {
        let [_, start, end, _] = self.edges(at);
        (start, end)
    }

    /// Returns the edges of the window before, of the window that contains this time, and of the
    /// next window. A store that decides elsewhere gets them, so it needs no rules of time zones.
    ///
    /// ```
    /// use tollgate::{Limit, Timestamp};
    /// let limit: Limit = "5/day calendar".parse()?;
    /// let edges = limit.calendar().unwrap().edges(Timestamp::from_micros(90_000_000_000));
    /// assert_eq!(edges.map(|edge| edge.as_micros() / 3_600_000_000), [0, 24, 48, 72]);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn edges(&self, at: Timestamp) -> [Timestamp; 4] {
        #[cfg(feature = "calendar")]
        return edges::around(self, at);
        // Without the feature no calendar can be made.
        #[cfg(not(feature = "calendar"))]
        return [
            Timestamp::EPOCH,
            Timestamp::EPOCH,
            Timestamp::MAX.min(at.plus(1)),
            Timestamp::MAX,
        ];
    }

    /// Returns a number of less than 48 bits that identifies the calendar in this process. It is
    /// never 0.
    pub(crate) fn code(&self) -> u64 {
        let Calendar { unit, zone, start, anchor, minute } = *self;
        let parts = [(zone.number(), 16), (minute, 11), (start as u16, 3), (unit as u16, 3)];
        // The anchor is at least 1.
        parts.iter().fold(u64::from(anchor), |code, (part, bits)| code << bits | u64::from(*part))
    }
}

/// The edges that a store sends with each call on a calendar limit, if it decides elsewhere. They are
/// those of the caller's clock.
///
/// ```
/// use tollgate::calendar::Edges;
/// use tollgate::{Limit, Timestamp};
///
/// let limit: Limit = "5/day calendar".parse()?;
/// let edges = Edges::of(&limit).expect("a calendar limit");
/// let now = Timestamp::from_micros(90_000_000_000);
/// assert_eq!(edges.at(Some(now))[2], 172_800_000_000);
/// assert!(Edges::of(&"5/day".parse()?).is_none());
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Debug)]
pub struct Edges {
    calendar: Calendar,
    clock: Arc<dyn Clock>,
    /// The edges that were computed last.
    last: Mutex<[Timestamp; 4]>,
}

impl Edges {
    /// Returns the edges of a calendar limit by the clock of the system. `None` for other limits.
    #[must_use]
    pub fn of(limit: &Limit) -> Option<Edges> {
        Edges::by(limit, &(Arc::new(SystemClock::new()) as Arc<dyn Clock>))
    }

    /// Returns the edges of a calendar limit by another clock. `None` for other limits.
    #[must_use]
    pub fn by(limit: &Limit, clock: &Arc<dyn Clock>) -> Option<Edges> {
        let last = Mutex::new([Timestamp::EPOCH; 4]);
        limit.calendar().map(|calendar| Edges { calendar, clock: Arc::clone(clock), last })
    }

    /// Returns the edges of the windows before, at and after this time, in microseconds, or those
    /// of now.
    #[must_use]
    pub fn at(&self, at: Option<Timestamp>) -> [u64; 4] {
        let now = at.unwrap_or_else(|| self.clock.now());
        let mut last = lock(&self.last);
        if !(last[1]..last[2]).contains(&now) {
            *last = self.calendar.edges(now);
        }
        last.map(Timestamp::as_micros)
    }
}

/// Prints the calendar in words for people.
///
/// ```
/// # use tollgate::Limit;
/// let limit: Limit = "5/week calendar tz=Asia/Tokyo at=06:00".parse()?;
/// assert_eq!(limit.calendar().unwrap().to_string(), "week of Asia/Tokyo, from monday 06:00");
/// # Ok::<(), tollgate::LimitError>(())
/// ```
impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hour, minute) = self.at();
        write!(f, "{} of {}, from ", self.unit, self.zone())?;
        match self.unit {
            CalendarUnit::Day => {}
            CalendarUnit::Week => write!(f, "{} ", self.start.name())?,
            CalendarUnit::Month => write!(f, "day {} ", self.anchor)?,
            CalendarUnit::Quarter | CalendarUnit::Year => f.write_str("day 1 ")?,
        }
        write!(f, "{hour:02}:{minute:02}")
    }
}
