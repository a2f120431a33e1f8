//! Errors of limits.

use std::convert::Infallible;
use std::fmt;

use super::{Algorithm, Limit, MAX_CONCURRENT, MAX_NAME, MAX_QUOTA};
use crate::calendar::UnknownZone;
use crate::policy::MAX_LIMITS;
use crate::text::Problem;

/// The reason why a limit is not valid: the value and the rule that it breaks.
///
/// ```
/// let error = tollgate::Limit::per_second(1).burst(u64::MAX).build().unwrap_err();
/// assert_eq!(error.to_string(), "burst 18446744073709551615: must be from 1 to 1000000000000");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct LimitError(Reason);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Value {
        kind: Kind,
        value: u128,
        algorithm: Algorithm,
    },
    /// A policy has this many limits, which are too few or too many.
    Count(usize),
    /// The policy already contains this limit, or one with its identity.
    Twice(Box<str>),
    /// The time zone is not known. The message advises others.
    Zone(Box<str>),
    /// The policy has a ban, but no other limit.
    OnlyBan(Box<str>),
    /// The policy has a second ban.
    SecondBan(Box<str>),
    Text(Problem),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Quota,
    Period,
    PeriodFraction,
    Burst,
    BurstWithoutBucket,
    Refill,
    ChargeDenied,
    Name,
    /// The units of a concurrency limit.
    Concurrent,
    PeriodOfConcurrent,
    Hold,
    HoldWithoutConcurrent,
    PeriodOfBudget,
    BudgetWithoutName,
    NoCalendars,
    CalendarPeriod,
    Anchor,
    AnchorWithoutMonth,
    StartWithoutWeek,
    At,
    /// The option of this name, or a unit such as a month, without a calendar.
    WithoutCalendar(&'static str),
    BanWithoutLength,
    BanOption,
    BanLength,
    BanLengthFraction,
    BanMax,
    BanMaxFraction,
}

impl LimitError {
    pub(super) const fn new(kind: Kind, value: u128, algorithm: Algorithm) -> Self {
        LimitError(Reason::Value { kind, value, algorithm })
    }

    pub(crate) const fn text(problem: Problem) -> Self {
        LimitError(Reason::Text(problem))
    }

    pub(crate) fn zone(zone: UnknownZone) -> Self {
        LimitError(Reason::Zone(zone.0))
    }

    /// Returns whether the time zone is not known.
    pub(crate) const fn is_zone(&self) -> bool {
        matches!(self.0, Reason::Zone(_))
    }

    pub(crate) const fn count(limits: usize) -> Self {
        LimitError(Reason::Count(limits))
    }

    pub(crate) fn twice(limit: &Limit) -> Self {
        LimitError(Reason::Twice(limit.to_string().into()))
    }

    pub(crate) fn only_ban(ban: &Limit) -> Self {
        LimitError(Reason::OnlyBan(ban.to_string().into()))
    }

    pub(crate) fn second_ban(ban: &Limit) -> Self {
        LimitError(Reason::SecondBan(ban.to_string().into()))
    }

    /// Returns the rule that a value broke.
    pub(crate) const fn broken(&self) -> Option<Kind> {
        match self.0 {
            Reason::Value { kind, .. } => Some(kind),
            _ => None,
        }
    }

    /// Returns the position of the error in the text, in bytes from its start. `None` if the limit
    /// was not parsed from text.
    ///
    /// ```
    /// let error = "10/fortnight".parse::<tollgate::Limit>().unwrap_err();
    /// assert_eq!(error.position(), Some(3));
    /// ```
    #[must_use]
    pub fn position(&self) -> Option<usize> {
        match &self.0 {
            Reason::Text(problem) => Some(problem.position()),
            _ => None,
        }
    }
}

/// Lets one function accept limits, which never fail to convert, and builders, which may.
impl From<Infallible> for LimitError {
    fn from(never: Infallible) -> LimitError {
        match never {}
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, value, algorithm) = match &self.0 {
            Reason::Text(problem) => return problem.fmt(f),
            Reason::Zone(message) => return f.write_str(message),
            Reason::Count(limits) => {
                return write!(f, "policy of {limits} limits: must have 1 to {MAX_LIMITS}");
            }
            Reason::Twice(limit) => {
                return write!(f, "limit {limit:?} twice in one policy: each may appear once");
            }
            Reason::OnlyBan(ban) => {
                return write!(
                    f,
                    "{ban:?} without another limit: a ban counts the denials of at least one other limit of its policy"
                );
            }
            Reason::SecondBan(ban) => {
                return write!(f, "second ban {ban:?} in one policy: at most one is allowed");
            }
            Reason::Value { kind, value, algorithm } => (kind, value, algorithm),
        };
        match kind {
            Kind::Quota => write!(f, "quota {value}: must be from 1 to {MAX_QUOTA}"),
            Kind::Period => {
                write!(f, "period of {value} ns: must be from 1 millisecond to 100 years")
            }
            Kind::PeriodFraction => {
                write!(f, "period of {value} ns: must be a whole number of microseconds")
            }
            Kind::Burst => write!(f, "burst {value}: must be from 1 to {MAX_QUOTA}"),
            Kind::BurstWithoutBucket => write!(
                f,
                "burst {value}: {algorithm} has no burst; only {} have one",
                Algorithm::list("and", Algorithm::has_burst)
            ),
            Kind::Refill => write!(
                f,
                "burst {value}: takes longer than 1000 years to refill at this quota and period"
            ),
            Kind::ChargeDenied => write!(
                f,
                "charge-denied with {algorithm}: only {} count denied hits",
                Algorithm::list("and", Algorithm::can_charge_denied)
            ),
            Kind::Concurrent => write!(f, "{value} concurrent: must be from 1 to {MAX_CONCURRENT}"),
            Kind::PeriodOfConcurrent => write!(
                f,
                "period of {value} ns: a concurrency limit has no period; write \"20 concurrent\""
            ),
            Kind::PeriodOfBudget => write!(
                f,
                "period of {value} ns: a budget has no period; write \"5000 total name=credit\""
            ),
            Kind::BudgetWithoutName => f.write_str(
                "total: a budget needs a name, so that its count stays when the quota changes",
            ),
            Kind::Hold => write!(
                f,
                "hold of {value} ns: must be from 1 second to 24 hours, in whole microseconds"
            ),
            Kind::HoldWithoutConcurrent => {
                write!(f, "hold of {value} ns: only a concurrency limit has one")
            }
            Kind::BanWithoutLength => {
                write!(f, "ban after {value} denials without a length: must state for=SPAN")
            }
            Kind::BanOption => write!(f, "doubling or push with {algorithm}: only a ban has them"),
            Kind::BanLength => {
                write!(f, "ban for {value} ns: must be from 1 millisecond to 100 years")
            }
            Kind::BanLengthFraction => {
                write!(f, "ban for {value} ns: must be a whole number of microseconds")
            }
            Kind::BanMax => write!(
                f,
                "longest ban of {value} ns: must be at least as long as the first ban (for) and at most 100 years"
            ),
            Kind::BanMaxFraction => {
                write!(f, "longest ban of {value} ns: must be a whole number of microseconds")
            }
            Kind::NoCalendars => f.write_str(
                "calendar: this build has no calendars; enable the feature `calendar` of tollgate",
            ),
            Kind::CalendarPeriod => write!(
                f,
                "period of {value} ns: a calendar counts by one day, week, month, quarter or year"
            ),
            Kind::Anchor => write!(f, "anchor {value}: must be from 1 to 31"),
            Kind::AnchorWithoutMonth => {
                write!(f, "anchor {value}: only months have an anchor")
            }
            Kind::StartWithoutWeek => f.write_str("start: only weeks have a first day"),
            Kind::At => {
                write!(f, "at {:02}:{:02}: must be from 00:00 to 23:59", value / 100, value % 100)
            }
            Kind::WithoutCalendar("unit") => f.write_str(
                "a month, a quarter and a year have no fixed length: add calendar, or say days",
            ),
            Kind::WithoutCalendar(option) => {
                write!(f, "{option}: only calendar limits have it; add calendar")
            }
            Kind::Name => write!(f, "name of {value} bytes: must be 1 to {MAX_NAME} bytes long"),
        }
    }
}

/// Prints the message, because a `main` that returns an error prints its `Debug` form.
impl fmt::Debug for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for LimitError {}
