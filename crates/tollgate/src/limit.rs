//! Limits as plain data.

mod algorithm;
mod ban;
mod describe;
mod error;

use std::time::Duration;

use crate::calendar::{Calendar, CalendarUnit, Weekday, Zone};

pub use algorithm::Algorithm;
pub(crate) use ban::{BanSpans, BanTerms};
pub use describe::Description;
pub(crate) use error::Kind;
pub use error::LimitError;

/// The largest quota, burst and cost: 10^12.
pub const MAX_QUOTA: u64 = 1_000_000_000_000;
const MIN_PERIOD: u64 = 1_000;
const YEAR: u64 = 365 * 24 * 3600 * 1_000_000;
const MAX_PERIOD: u64 = 100 * YEAR;
const MAX_REFILL: u64 = 1_000 * YEAR;
const MAX_NAME: usize = 200;

/// The largest number of units that a concurrency limit can have: 100,000.
pub const MAX_CONCURRENT: u64 = 100_000;
const MIN_HOLD: u64 = 1_000_000;
const MAX_HOLD: u64 = 24 * 3600 * 1_000_000;

/// A quota per period, counted by an [`Algorithm`]. It is plain data and always valid.
///
/// ```
/// use tollgate::{Algorithm, Limit};
///
/// // Ten per second, and at most twenty at one instant.
/// let api = Limit::per_second(10).burst(20).build()?;
/// assert_eq!(api.algorithm(), Algorithm::Gcra);
/// assert_eq!(api.to_string(), "10/second burst=20");
///
/// let login: Limit = "5/minute fixed-window name=login charge-denied".parse()?;
/// assert!(login.charge_denied());
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    rate: Rate,
    name: Option<Box<str>>,
    /// The identities of the limits that a ban in a policy watches.
    watched: Option<Box<str>>,
}

/// The numbers of a limit: everything but its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rate {
    pub(crate) algorithm: Algorithm,
    pub(crate) quota: u64,
    /// The period in microseconds. For a concurrency limit, the time after which a hold expires
    /// unless the call says another one; 0 if the limit has none.
    pub(crate) period: u64,
    /// The burst. It equals the quota where the algorithm has no burst.
    pub(crate) burst: u64,
    pub(crate) charge_denied: bool,
    /// The calendar of a limit that counts in calendar windows.
    pub(crate) calendar: Option<Calendar>,
    /// The settings that only a ban has.
    pub(crate) ban: Option<BanTerms>,
}

impl Limit {
    /// Starts to build a limit of `quota` units per `period`.
    ///
    /// ```
    /// use std::time::Duration;
    /// let limit = tollgate::Limit::new(3, Duration::from_millis(1500)).build()?;
    /// assert_eq!(limit.to_string(), "3 per 1500 milliseconds");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[expect(
        clippy::new_ret_no_self,
        reason = "it returns a builder, which checks all values together"
    )]
    pub const fn new(quota: u64, period: Duration) -> LimitBuilder {
        LimitBuilder {
            algorithm: Algorithm::Gcra,
            quota,
            period,
            burst: None,
            charge_denied: false,
            hold: None,
            name: None,
            unit: None,
            zone: None,
            week_start: None,
            anchor: None,
            at: None,
            ban: None,
        }
    }

    /// Starts to build a limit of `units` that are held at the same time. Units are taken by
    /// [holds](crate::hold), not by hits.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    ///
    /// let limit = Limit::concurrent(20).hold(Duration::from_secs(60)).build()?;
    /// assert_eq!(limit.to_string(), "20 concurrent hold=60s");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn concurrent(units: u64) -> LimitBuilder {
        Limit::new(units, Duration::ZERO).algorithm(Algorithm::Concurrent)
    }

    /// Starts to build a budget: `units` that never come back by themselves. It needs a
    /// [name](LimitBuilder::name).
    ///
    /// ```
    /// let credit = tollgate::Limit::total(5_000).name("credit").build()?;
    /// assert_eq!(credit.to_string(), "5000 total name=credit");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn total(units: u64) -> LimitBuilder {
        Limit::new(units, Duration::ZERO).algorithm(Algorithm::Budget)
    }

    /// Starts to build a limit of `quota` units per day, week, month, quarter or year of the
    /// calendar. The time zone is UTC unless [`LimitBuilder::zone`] states another.
    ///
    /// ```
    /// use tollgate::{CalendarUnit, Limit};
    /// let limit = Limit::per_calendar(10_000, CalendarUnit::Month).zone("Europe/Berlin").build()?;
    /// assert_eq!(limit.to_string(), "10000/month calendar tz=Europe/Berlin");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn per_calendar(quota: u64, unit: CalendarUnit) -> LimitBuilder {
        let mut limit = Limit::new(quota, Duration::from_micros(unit.period()));
        limit.algorithm = Algorithm::CalendarWindow;
        limit.unit = Some(unit);
        limit
    }

    /// Starts to build a limit of `quota` units per second.
    ///
    /// ```
    /// assert_eq!(tollgate::Limit::per_second(10).build()?.quota(), 10);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn per_second(quota: u64) -> LimitBuilder {
        Limit::new(quota, Duration::from_secs(1))
    }

    /// Starts to build a limit of `quota` units per minute.
    ///
    /// ```
    /// assert_eq!(tollgate::Limit::per_minute(10).build()?.to_string(), "10/minute");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn per_minute(quota: u64) -> LimitBuilder {
        Limit::new(quota, Duration::from_secs(60))
    }

    /// Starts to build a limit of `quota` units per hour.
    ///
    /// ```
    /// assert_eq!(tollgate::Limit::per_hour(10).build()?.to_string(), "10/hour");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn per_hour(quota: u64) -> LimitBuilder {
        Limit::new(quota, Duration::from_secs(3600))
    }

    /// Starts to build a limit of `quota` units per day of 24 hours.
    ///
    /// ```
    /// assert_eq!(tollgate::Limit::per_day(10).build()?.to_string(), "10/day");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn per_day(quota: u64) -> LimitBuilder {
        Limit::new(quota, Duration::from_secs(86_400))
    }

    /// Returns the algorithm.
    ///
    /// ```
    /// # use tollgate::{Algorithm, Limit};
    /// assert_eq!(Limit::per_second(1).build()?.algorithm(), Algorithm::Gcra);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.rate.algorithm
    }

    /// Returns the quota: the units per period.
    ///
    /// ```
    /// assert_eq!(tollgate::Limit::per_second(7).build()?.quota(), 7);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn quota(&self) -> u64 {
        self.rate.quota
    }

    /// Returns the period, in whole microseconds. A concurrency limit and a budget have none, and
    /// zero is returned. For a calendar limit it is the length of the longest unit, such as 31 days for a
    /// month.
    ///
    /// ```
    /// # use std::time::Duration;
    /// assert_eq!(tollgate::Limit::per_minute(7).build()?.period(), Duration::from_secs(60));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn period(&self) -> Duration {
        match self.rate.algorithm {
            Algorithm::Concurrent => Duration::ZERO,
            _ => Duration::from_micros(self.rate.period),
        }
    }

    /// Returns the time after which a hold on this concurrency limit expires, unless the call says
    /// another one. `None` for all other limits, and if the limit does not say it.
    ///
    /// ```
    /// # use tollgate::Limit;
    /// let limit: Limit = "20 concurrent hold=60s".parse()?;
    /// assert_eq!(limit.hold().map(|hold| hold.as_secs()), Some(60));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn hold(&self) -> Option<Duration> {
        match (self.rate.algorithm, self.rate.period) {
            (Algorithm::Concurrent, 1..) => Some(Duration::from_micros(self.rate.period)),
            _ => None,
        }
    }

    /// Returns the largest number of units that can pass at one instant. By default this is the
    /// quota.
    ///
    /// ```
    /// assert_eq!(tollgate::Limit::per_second(7).build()?.burst(), 7);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.rate.burst
    }

    /// Returns whether denied hits are counted too.
    ///
    /// ```
    /// assert!(!tollgate::Limit::per_second(7).build()?.charge_denied());
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn charge_denied(&self) -> bool {
        self.rate.charge_denied
    }

    /// Returns the calendar. `None` unless the limit counts in calendar windows.
    ///
    /// ```
    /// assert!(tollgate::Limit::per_second(7).build()?.calendar().is_none());
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn calendar(&self) -> Option<Calendar> {
        self.rate.calendar
    }

    /// Returns the name, if the limit has one.
    ///
    /// ```
    /// assert_eq!(tollgate::Limit::per_second(7).name("api").build()?.name(), Some("api"));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the text that identifies the counters of this limit in every store. A limit with a
    /// name is identified by name, algorithm and period, so its quota can change and the counters
    /// stay. A limit without a name is identified by its whole definition, and a ban in a policy
    /// by the identities of the limits that it watches too. The period of a calendar limit is its
    /// unit, so time zone and anchor can change too.
    ///
    /// ```
    /// use tollgate::Limit;
    /// let free = Limit::per_minute(10).name("api").build()?;
    /// let paid = Limit::per_minute(99).name("api").build()?;
    /// assert_eq!(free.identity(), paid.identity());
    /// assert_ne!(free.identity(), Limit::per_minute(10).build()?.identity());
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn identity(&self) -> String {
        let Rate { algorithm, quota, period, burst, charge_denied, calendar, ban } = self.rate;
        match (&self.name, ban) {
            // The slots of a named limit stay if holds get another time to live.
            (Some(name), _) if matches!(algorithm, Algorithm::Concurrent | Algorithm::Budget) => {
                format!("{algorithm}:n:{name}")
            }
            // The name comes last, so that none of its characters can be taken for a separator of
            // parts.
            (Some(name), _) => format!("{algorithm}:{period}:n:{name}"),
            (None, Some(ban)) => {
                let watched = self.watched.as_deref().unwrap_or_default();
                format!("{algorithm}:{period}:q:{quota}:{}:{watched}", ban.identity())
            }
            (None, None) => {
                let denied = u8::from(charge_denied);
                let mut text = format!("{algorithm}:{period}:q:{quota}:{burst}:{denied}");
                if let Some(Calendar { zone, start, anchor, minute, .. }) = calendar {
                    text += &format!(":{}:{anchor}:{minute}:{}", start.name(), zone.name());
                }
                text
            }
        }
    }

    pub(crate) const fn rate(&self) -> Rate {
        self.rate
    }
}

/// A limit that is not checked yet. [`LimitBuilder::build`] checks it. Every function that takes a
/// limit takes a builder too.
///
/// Builders and [their check](LimitBuilder::assert_valid) can be used in constants:
///
/// ```
/// use tollgate::{Limit, LimitBuilder};
///
/// const API: LimitBuilder = Limit::per_second(10).burst(20).assert_valid();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a builder has no effect until it is built or passed to a store"]
pub struct LimitBuilder {
    algorithm: Algorithm,
    quota: u64,
    period: Duration,
    burst: Option<u64>,
    charge_denied: bool,
    hold: Option<Duration>,
    name: Option<Box<str>>,
    /// The unit of a calendar limit. `None` if only the period was stated.
    unit: Option<CalendarUnit>,
    zone: Option<Box<str>>,
    week_start: Option<Weekday>,
    anchor: Option<u8>,
    at: Option<(u8, u8)>,
    ban: Option<BanSpans>,
}

impl LimitBuilder {
    /// Counts with this algorithm instead of GCRA.
    ///
    /// ```
    /// # use tollgate::{Algorithm, Limit};
    /// let limit = Limit::per_hour(100).algorithm(Algorithm::MovingWindow).build()?;
    /// assert_eq!(limit.to_string(), "100/hour moving-window");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Sets the largest number of units that can pass at one instant, for the algorithms with a
    /// burst. The default is the quota.
    ///
    /// ```
    /// # use tollgate::Limit;
    /// assert_eq!(Limit::per_second(10).burst(20).build()?.burst(), 20);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }

    /// Counts denied hits too, as the libraries Hammer and `limits` and the INCR recipe of Redis
    /// do. Only fixed, per-key and elastic windows support this.
    ///
    /// ```
    /// # use tollgate::{Algorithm, Limit};
    /// let limit = Limit::per_minute(5).algorithm(Algorithm::FixedWindow).charge_denied().build()?;
    /// assert!(limit.charge_denied());
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn charge_denied(mut self) -> Self {
        self.charge_denied = true;
        self
    }

    /// Sets the time after which a hold on a concurrency limit expires, unless the call says
    /// another one.
    ///
    /// See the example of [`Limit::concurrent`].
    pub const fn hold(mut self, time: Duration) -> Self {
        self.hold = Some(time);
        self
    }

    /// Gives the limit a name. Then the name, the algorithm and the period identify its counters,
    /// and the quota may change.
    ///
    /// ```
    /// # use tollgate::Limit;
    /// assert_eq!(Limit::per_minute(5).name("login").build()?.to_string(), "5/minute name=login");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub fn name(mut self, name: impl Into<Box<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Counts in windows of this time zone: `UTC`, which is the default, or a name of the IANA time
    /// zone database, in any case. Only calendar limits have a time zone.
    ///
    /// ```
    /// # use tollgate::{CalendarUnit, Limit};
    /// let limit = Limit::per_calendar(5, CalendarUnit::Day).zone("Asia/Tokyo").build()?;
    /// assert_eq!(limit.to_string(), "5/day calendar tz=Asia/Tokyo");
    ///
    /// let error = Limit::per_calendar(5, CalendarUnit::Day).zone("Europe/Berln").build().unwrap_err();
    /// assert!(error.to_string().ends_with("did you mean Europe/Berlin?"));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub fn zone(mut self, name: impl Into<Box<str>>) -> Self {
        self.zone = Some(name.into());
        self
    }

    /// Lets the weeks of a calendar limit begin on this day. The default is Monday.
    ///
    /// ```
    /// # use tollgate::{CalendarUnit, Limit, Weekday};
    /// let limit = Limit::per_calendar(5, CalendarUnit::Week).week_start(Weekday::Sunday).build()?;
    /// assert_eq!(limit.to_string(), "5/week calendar start=sunday");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn week_start(mut self, day: Weekday) -> Self {
        self.week_start = Some(day);
        self
    }

    /// Lets the months of a calendar limit begin on this day, from 1 to 31, such as the day on
    /// which a customer has signed up. In shorter months it is the last day. The default is 1.
    ///
    /// ```
    /// # use tollgate::{CalendarUnit, Limit};
    /// let limit = Limit::per_calendar(5, CalendarUnit::Month).anchor(15).build()?;
    /// assert_eq!(limit.to_string(), "5/month calendar anchor=15");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn anchor(mut self, day: u8) -> Self {
        self.anchor = Some(day);
        self
    }

    /// Lets the windows of a calendar limit begin at this time of the day. The default is midnight.
    ///
    /// ```
    /// # use tollgate::{CalendarUnit, Limit};
    /// let limit = Limit::per_calendar(5, CalendarUnit::Day).at(6, 0).build()?;
    /// assert_eq!(limit.to_string(), "5/day calendar at=06:00");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn at(mut self, hour: u8, minute: u8) -> Self {
        self.at = Some((hour, minute));
        self
    }

    /// Returns whether the limit counts in calendar windows.
    pub(crate) const fn has_calendar(&self) -> bool {
        matches!(self.algorithm, Algorithm::CalendarWindow)
    }

    /// Sets the period as it was written: as a duration, which a month does not have, or as a
    /// single unit of the calendar.
    pub(crate) fn period<E>(
        mut self,
        span: Result<Duration, E>,
        unit: Option<CalendarUnit>,
    ) -> Result<Self, E> {
        match unit.filter(|_| self.has_calendar()) {
            Some(unit) => {
                self.unit = Some(unit);
                self.period = Duration::from_micros(unit.period());
            }
            None => self.period = span?,
        }
        Ok(self)
    }

    /// Checks the numbers without building the limit. The name and the time zone are not checked.
    ///
    /// # Errors
    /// Fails if a number breaks a rule. The error states the first such number and the rule.
    ///
    /// ```
    /// let error = tollgate::Limit::per_second(0).check().unwrap_err();
    /// assert_eq!(error.to_string(), "quota 0: must be from 1 to 1000000000000");
    /// ```
    pub const fn check(&self) -> Result<(), LimitError> {
        match self.broken() {
            Some((kind, value)) => Err(LimitError::new(kind, value, self.algorithm)),
            None => Ok(()),
        }
    }

    /// Returns the builder unchanged if its numbers are valid. In a constant, an invalid number is
    /// a compiler error.
    ///
    /// # Panics
    /// Panics if [`LimitBuilder::check`] returns an error.
    ///
    /// ```
    /// # use tollgate::{Limit, LimitBuilder};
    /// const LOGIN: LimitBuilder = Limit::per_minute(5).assert_valid();
    /// ```
    ///
    /// ```compile_fail
    /// # use tollgate::{Limit, LimitBuilder};
    /// const LOGIN: LimitBuilder = Limit::per_minute(0).assert_valid();
    /// ```
    pub const fn assert_valid(self) -> Self {
        assert!(
            self.broken().is_none(),
            "a value of this limit is not valid: check() returns the reason"
        );
        self
    }

    /// Returns the first rule that is broken, with the value. It does not return a `LimitError`,
    /// because a constant function cannot drop one.
    const fn broken(&self) -> Option<(Kind, u128)> {
        if let Some(broken) = self.broken_ban() {
            return Some(broken);
        }
        let burst = match self.burst {
            Some(burst) if !self.algorithm.has_burst() => {
                return Some((Kind::BurstWithoutBucket, burst as u128));
            }
            Some(burst) => burst,
            None => self.quota,
        };
        if let Algorithm::Concurrent = self.algorithm {
            return self.broken_concurrent();
        }
        if let Some(hold) = self.hold {
            return Some((Kind::HoldWithoutConcurrent, hold.as_nanos()));
        }
        let nanos = self.period.as_nanos();
        if let Algorithm::Budget = self.algorithm
            && nanos > 0
        {
            return Some((Kind::PeriodOfBudget, nanos));
        }
        let has_period = !matches!(self.algorithm, Algorithm::Budget);
        if self.quota == 0 || self.quota > MAX_QUOTA {
            Some((Kind::Quota, self.quota as u128))
        } else if has_period && nanos < (MIN_PERIOD as u128) * 1000
            || nanos > (MAX_PERIOD as u128) * 1000
        {
            Some((Kind::Period, nanos))
        } else if !nanos.is_multiple_of(1000) {
            Some((Kind::PeriodFraction, nanos))
        } else if burst == 0 || burst > MAX_QUOTA {
            Some((Kind::Burst, burst as u128))
        } else if (burst as u128) * nanos > (self.quota as u128) * (MAX_REFILL as u128) * 1000 {
            Some((Kind::Refill, burst as u128))
        } else if self.charge_denied && !self.algorithm.can_charge_denied() {
            Some((Kind::ChargeDenied, burst as u128))
        } else if self.has_calendar() {
            self.broken_calendar()
        } else {
            self.option_without_calendar()
        }
    }

    const fn broken_concurrent(&self) -> Option<(Kind, u128)> {
        if self.quota == 0 || self.quota > MAX_CONCURRENT {
            return Some((Kind::Concurrent, self.quota as u128));
        }
        if !self.period.is_zero() {
            return Some((Kind::PeriodOfConcurrent, self.period.as_nanos()));
        }
        if self.charge_denied {
            return Some((Kind::ChargeDenied, 0));
        }
        let Some(hold) = self.hold else { return None };
        let nanos = hold.as_nanos();
        let valid = nanos >= (MIN_HOLD as u128) * 1000
            && nanos <= (MAX_HOLD as u128) * 1000
            && nanos.is_multiple_of(1000);
        if valid { None } else { Some((Kind::Hold, nanos)) }
    }

    const fn broken_calendar(&self) -> Option<(Kind, u128)> {
        if cfg!(not(feature = "calendar")) {
            return Some((Kind::NoCalendars, 0));
        }
        let Some(unit) = self.calendar_unit() else {
            return Some((Kind::CalendarPeriod, self.period.as_nanos()));
        };
        match (self.anchor, self.at) {
            (Some(anchor), _) if !matches!(unit, CalendarUnit::Month) => {
                Some((Kind::AnchorWithoutMonth, anchor as u128))
            }
            (Some(anchor), _) if anchor == 0 || anchor > 31 => Some((Kind::Anchor, anchor as u128)),
            (_, Some((hour, minute))) if hour > 23 || minute > 59 => {
                Some((Kind::At, hour as u128 * 100 + minute as u128))
            }
            _ if self.week_start.is_some() && !matches!(unit, CalendarUnit::Week) => {
                Some((Kind::StartWithoutWeek, 0))
            }
            _ => None,
        }
    }

    const fn option_without_calendar(&self) -> Option<(Kind, u128)> {
        let option = match self.unit {
            Some(CalendarUnit::Month | CalendarUnit::Quarter | CalendarUnit::Year) => "unit",
            _ if self.zone.is_some() => "tz",
            _ if self.week_start.is_some() => "start",
            _ if self.anchor.is_some() => "anchor",
            _ if self.at.is_some() => "at",
            _ => return None,
        };
        Some((Kind::WithoutCalendar(option), 0))
    }

    /// Returns the unit of a calendar limit. A day and a week may be stated as a period too.
    const fn calendar_unit(&self) -> Option<CalendarUnit> {
        const DAY: u128 = CalendarUnit::Day.period() as u128;
        const WEEK: u128 = CalendarUnit::Week.period() as u128;
        match (self.unit, self.period.as_micros()) {
            (None, DAY) => Some(CalendarUnit::Day),
            (None, WEEK) => Some(CalendarUnit::Week),
            (unit, _) => unit,
        }
    }

    fn checked_calendar(&self) -> Result<Option<Calendar>, LimitError> {
        let Some(unit) = self.calendar_unit().filter(|_| self.has_calendar()) else {
            return Ok(None);
        };
        let zone = match &self.zone {
            Some(name) => Zone::named(name).map_err(LimitError::zone)?,
            None => Zone::UTC,
        };
        let (hour, minute) = self.at.unwrap_or_default();
        Ok(Some(Calendar {
            unit,
            zone,
            start: self.week_start.unwrap_or_default(),
            anchor: self.anchor.unwrap_or(1),
            minute: u16::from(hour) * 60 + u16::from(minute),
        }))
    }

    /// Returns the limit, if every value is valid.
    ///
    /// # Errors
    /// Fails if a value breaks a rule. The error states the first such value and the rule.
    ///
    /// ```
    /// # use tollgate::Limit;
    /// assert!(Limit::per_second(10).build().is_ok());
    /// assert!(Limit::per_second(10).burst(0).build().is_err());
    /// ```
    pub fn build(self) -> Result<Limit, LimitError> {
        self.check()?;
        if let Some(name) = &self.name
            && (name.is_empty() || name.len() > MAX_NAME)
        {
            return Err(LimitError::new(Kind::Name, name.len() as u128, self.algorithm));
        }
        if self.algorithm == Algorithm::Budget && self.name.is_none() {
            return Err(LimitError::new(Kind::BudgetWithoutName, 0, self.algorithm));
        }
        let rate = Rate {
            calendar: self.checked_calendar()?,
            algorithm: self.algorithm,
            quota: self.quota,
            // The conversion cannot fail: `check` accepts at most 100 years.
            period: u64::try_from(self.hold.unwrap_or(self.period).as_micros())
                .unwrap_or(MAX_PERIOD),
            burst: self.burst.unwrap_or(self.quota),
            charge_denied: self.charge_denied,
            ban: self.ban.map(BanTerms::from),
        };
        Ok(Limit { rate, name: self.name, watched: None })
    }
}

impl TryFrom<LimitBuilder> for Limit {
    type Error = LimitError;

    fn try_from(builder: LimitBuilder) -> Result<Limit, LimitError> {
        builder.build()
    }
}

impl From<Limit> for LimitBuilder {
    fn from(limit: Limit) -> LimitBuilder {
        let Rate { algorithm, quota, burst, charge_denied, calendar, ban, .. } = limit.rate;
        LimitBuilder {
            algorithm,
            quota,
            period: limit.period(),
            hold: limit.hold(),
            burst: (algorithm.has_burst() && burst != quota).then_some(burst),
            charge_denied,
            name: limit.name,
            unit: calendar.map(|calendar| calendar.unit),
            zone: calendar.map(|calendar| calendar.zone().into()),
            week_start: calendar
                .filter(|calendar| calendar.unit == CalendarUnit::Week)
                .map(|calendar| calendar.start),
            anchor: calendar
                .filter(|calendar| calendar.unit == CalendarUnit::Month)
                .map(|calendar| calendar.anchor),
            at: calendar.map(|calendar| calendar.at()),
            ban: ban.map(BanSpans::from),
        }
    }
}

/// Lets functions that take a limit accept a reference too.
impl From<&Limit> for Limit {
    fn from(limit: &Limit) -> Limit {
        limit.clone()
    }
}
