//! The text form of limits and policies. Reading accepts several spellings, printing uses one.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::Duration;

#[cfg(feature = "serde")]
use crate::calendar::CalendarUnit;
use crate::calendar::{Calendar, Weekday, Zone};
use crate::limit::{Algorithm, Limit, LimitError, Rate};
use crate::policy::Policy;

mod scan;

use scan::{ALGORITHM, END, SEPARATORS, Scanner, TOTAL};

struct Unit {
    name: &'static str,
    micros: u64,
    short: &'static [&'static str],
}

/// The units of time, the largest first, so that printing finds the largest unit that divides a
/// period. The microsecond can be read too, because some periods can be printed only in
/// microseconds.
const UNITS: [Unit; 7] = [
    Unit { name: "week", micros: 604_800_000_000, short: &["w"] },
    Unit { name: "day", micros: 86_400_000_000, short: &["d"] },
    Unit { name: "hour", micros: 3_600_000_000, short: &["h", "hr", "hrs"] },
    Unit { name: "minute", micros: 60_000_000, short: &["m", "min", "mins"] },
    Unit { name: "second", micros: 1_000_000, short: &["s", "sec", "secs"] },
    Unit { name: "millisecond", micros: 1_000, short: &["ms", "msec", "msecs"] },
    MICROSECOND,
];
/// The units in which the time of a hold is printed, with their microseconds.
const SHORT: [(&str, u128); 3] = [("s", 1_000_000), ("ms", 1_000), ("us", 1)];

const MICROSECOND: Unit = Unit { name: "microsecond", micros: 1, short: &["us"] };

/// Reads the text form: `QUOTA / [COUNT] UNIT`, followed by options in any order.
///
/// `per` may be written instead of `/`, blanks are optional, and words may be in any case. The
/// units are `millisecond` to `week`; the short forms (`ms`, `s`, `m`, `h`, `d`, `w`) and the
/// plural are accepted too. The options are the name of an [`Algorithm`], `burst=`, `name=` and
/// `charge-denied`. A concurrency limit is `QUOTA concurrent`; its options are `hold=` and `name=`.
/// A budget is `QUOTA total name=`.
///
/// With the algorithm `calendar` the unit is `day`, `week`, `month`, `quarter` or `year`, without a
/// count. Then there are the options `tz=`, `start=` (of weeks), `anchor=` (of months) and `at=`.
/// A ban is `ban after=COUNT/[COUNT] UNIT for=[COUNT] UNIT` with the options `doubling` and `max=`,
/// which belong together, `push` and `name=`. See [`Limit::ban`].
///
/// ```
/// use tollgate::{Algorithm, Limit};
///
/// let limit: Limit = "10 per 2 hours".parse()?;
/// assert_eq!(limit.quota(), 10);
/// assert_eq!(limit.period().as_secs(), 7200);
/// assert_eq!("10per2hours".parse(), Ok(limit));
///
/// let login: Limit = r#"1_000/day Token_Bucket burst=20 name="log in""#.parse()?;
/// assert_eq!(login.algorithm(), Algorithm::TokenBucket);
/// assert_eq!(login.name(), Some("log in"));
///
/// // An error names the position, the text found there and the text expected.
/// let error = "10/second burst=many".parse::<Limit>().unwrap_err();
/// assert_eq!(error.to_string(), r#"at 16: found "many", expected a burst in digits"#);
/// # Ok::<(), tollgate::LimitError>(())
/// ```
impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Limit, LimitError> {
        let mut scanner = Scanner::new(text);
        let limit = scanner.limit()?;
        scanner.end("the end of the text, because only one limit is allowed here, not a policy")?;
        Ok(limit)
    }
}

/// Reads limits in their text form, separated by `;`, `,` or `|`.
///
/// ```
/// use tollgate::Policy;
///
/// let policy: Policy = "5/second, 100/minute fixed-window".parse()?;
/// assert_eq!(policy.limits().len(), 2);
/// assert_eq!(policy.to_string(), "5/second; 100/minute fixed-window");
///
/// let error = "5/second; 100/fortnight".parse::<Policy>().unwrap_err();
/// assert_eq!(error.position(), Some(14));
/// # Ok::<(), tollgate::LimitError>(())
/// ```
impl FromStr for Policy {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Policy, LimitError> {
        let mut scanner = Scanner::new(text);
        let mut starts = vec![scanner.at];
        let mut limits = vec![scanner.limit()?];
        while scanner.eat(&SEPARATORS) {
            scanner.blanks();
            starts.push(scanner.at);
            limits.push(scanner.limit()?);
        }
        scanner.end(END)?;
        Policy::checked(limits).map_err(|(index, error)| {
            Problem::at(starts.get(index).copied().unwrap_or_default(), error.to_string())
        })
    }
}

/// Lets functions that take a limit or a policy accept a text too, borrowed or owned.
macro_rules! from_texts {
    ($($parsed:ty: $($text:ty),+;)+) => {
        $($(impl TryFrom<$text> for $parsed {
            type Error = LimitError;

            fn try_from(text: $text) -> Result<$parsed, LimitError> {
                text.parse()
            }
        })+)+
    };
}

from_texts! {
    Limit: &str, &String, String;
    Policy: &str, &String, String;
}

/// Reads the name of an algorithm, in any case, and with `_` instead of `-` if written so.
///
/// ```
/// use tollgate::Algorithm;
///
/// assert_eq!("sliding-window".parse(), Ok(Algorithm::SlidingWindow));
/// assert_eq!("GCRA".parse(), Ok(Algorithm::Gcra));
/// assert!("window".parse::<Algorithm>().is_err());
/// ```
impl FromStr for Algorithm {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Algorithm, LimitError> {
        let mut scanner = Scanner::new(text);
        let algorithm = scanner.algorithm(&ALGORITHM)?;
        scanner.blanks();
        scanner.end(END)?;
        Ok(algorithm)
    }
}

/// Prints the text form. Parsing it returns an equal limit.
///
/// ```
/// use tollgate::Limit;
///
/// assert_eq!("60 per 120min GCRA burst=60".parse::<Limit>()?.to_string(), "60 per 2 hours");
/// # Ok::<(), tollgate::LimitError>(())
/// ```
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rate { algorithm, quota, period, burst, charge_denied, calendar, ban } = self.rate();
        if let Some(ban) = ban {
            let unit = largest_unit(period);
            match period / unit.micros {
                1 => write!(f, "ban after={quota}/{}", unit.name)?,
                _ => write!(f, "ban after={quota}/{}", Short(period))?,
            }
            write!(f, " for={}", Short(ban.length))?;
            if let Some(max) = ban.max {
                write!(f, " doubling max={}", Short(max))?;
            }
            if ban.push {
                f.write_str(" push")?;
            }
            return write_named(f, self.name());
        }
        if !(algorithm.is_periodic() || calendar.is_some()) {
            let word = if algorithm == Algorithm::Budget { TOTAL } else { algorithm.as_str() };
            write!(f, "{quota} {word}")?;
            if let Some(hold) = self.hold() {
                let unit = SHORT.iter().find(|(_, micros)| hold.as_micros() % micros == 0);
                let (unit, micros) = unit.unwrap_or(&SHORT[SHORT.len() - 1]);
                write!(f, " hold={}{unit}", hold.as_micros() / micros)?;
            }
            return write_named(f, self.name());
        }
        let unit = largest_unit(period);
        match (calendar, period / unit.micros) {
            (Some(calendar), _) => write!(f, "{quota}/{}", calendar.unit)?,
            (None, 1) => write!(f, "{quota}/{}", unit.name)?,
            (None, count) => write!(f, "{quota} per {count} {}s", unit.name)?,
        }
        if algorithm != Algorithm::default() {
            write!(f, " {algorithm}")?;
        }
        if let Some(calendar) = calendar {
            write_calendar(f, &calendar)?;
        }
        if burst != quota {
            write!(f, " burst={burst}")?;
        }
        write_named(f, self.name())?;
        if charge_denied { f.write_str(" charge-denied") } else { Ok(()) }
    }
}

/// Returns the largest unit of which a period is a multiple.
fn largest_unit(micros: u64) -> &'static Unit {
    UNITS.iter().find(|unit| micros.is_multiple_of(unit.micros)).unwrap_or(&MICROSECOND)
}

/// A span in the options of a ban, such as `90s`.
struct Short(u64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = largest_unit(self.0);
        write!(f, "{}{}", self.0 / unit.micros, unit.short[0])
    }
}

fn write_named(f: &mut fmt::Formatter<'_>, name: Option<&str>) -> fmt::Result {
    let Some(name) = name else { return Ok(()) };
    f.write_str(" name=")?;
    write_name(f, name)
}

/// Prints the text form. Parsing it returns an equal policy.
///
/// ```
/// use tollgate::Policy;
///
/// assert_eq!("1/s|9/m".parse::<Policy>()?.to_string(), "1/second; 9/minute");
/// # Ok::<(), tollgate::LimitError>(())
/// ```
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, limit) in self.limits().iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            limit.fmt(f)?;
        }
        Ok(())
    }
}

/// Writes the options of a calendar that differ from the defaults.
fn write_calendar(f: &mut fmt::Formatter<'_>, calendar: &Calendar) -> fmt::Result {
    if calendar.zone != Zone::UTC {
        write!(f, " tz={}", calendar.zone())?;
    }
    if calendar.start != Weekday::default() {
        write!(f, " start={}", calendar.start.name())?;
    }
    if calendar.anchor != 1 {
        write!(f, " anchor={}", calendar.anchor)?;
    }
    match calendar.at() {
        (0, 0) => Ok(()),
        (hour, minute) => write!(f, " at={hour:02}:{minute:02}"),
    }
}

fn write_name(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    if name.chars().all(bare) {
        return f.write_str(name);
    }
    f.write_char('"')?;
    for c in name.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' | '\r' | '\t' => write!(f, "{}", c.escape_default())?,
            _ if needs_escape(c) => write!(f, "{}", c.escape_unicode())?,
            _ => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// Returns whether a character may be part of a name without quotes.
fn bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._:/@-".contains(c)
}

/// Returns whether a character is escaped, because it would end the line or change the reading
/// direction in a log or a terminal.
fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Reads a duration as in the text form of a [`Limit`]: `[COUNT] UNIT`, with the same units and
/// spellings.
///
/// ```
/// use std::time::Duration;
/// use tollgate::text::span;
///
/// assert_eq!(span("500ms"), Ok(Duration::from_millis(500)));
/// assert_eq!(span("2 hours"), span("120m"));
/// assert_eq!(span("day"), Ok(Duration::from_secs(86_400)));
///
/// let error = span("2 parsecs").unwrap_err();
/// assert!(error.to_string().starts_with(r#"at 2: found "parsecs", expected a unit of time"#));
/// ```
///
/// # Errors
/// Fails if the text is not a duration, or is longer than 2^64 microseconds, some 584,000 years.
pub fn span(text: &str) -> Result<Duration, LimitError> {
    let mut scanner = Scanner::new(text);
    let span = scanner.span("a span of less than 2^64 microseconds")?;
    scanner.blanks();
    scanner.end(END)?;
    Ok(span)
}

/// The period of a limit as the text form writes it: a span, or a single unit of the calendar, whose
/// span is an error if it has no fixed length.
#[cfg(feature = "serde")]
pub(crate) fn period(
    text: &str,
) -> Result<(Result<Duration, LimitError>, Option<CalendarUnit>), LimitError> {
    let mut scanner = Scanner::new(text);
    let period = scanner.period()?;
    scanner.blanks();
    scanner.end(END)?;
    Ok((period.span, period.unit))
}

/// Reads a day of the week.
#[cfg(feature = "serde")]
pub(crate) fn weekday(text: &str) -> Result<Weekday, LimitError> {
    let mut scanner = Scanner::new(text);
    let day = scanner.weekday()?;
    scanner.end(END)?;
    Ok(day)
}

/// Reads a time of the day, such as `06:00`, as hour and minute.
#[cfg(feature = "serde")]
pub(crate) fn time_of_day(text: &str) -> Result<(u8, u8), LimitError> {
    let mut scanner = Scanner::new(text);
    let time = scanner.time_of_day()?;
    scanner.end(END)?;
    Ok(time)
}

/// A mistake in a text, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    position: usize,
    message: Box<str>,
}

impl Problem {
    fn at(position: usize, message: impl Into<Box<str>>) -> LimitError {
        LimitError::text(Problem { position, message: message.into() })
    }

    fn found(position: usize, found: &str, expected: &str) -> LimitError {
        Problem::at(position, format!("found {}, expected {expected}", Shown(found)))
    }

    /// Returns the position in bytes from the start of the whole text.
    pub(crate) const fn position(&self) -> usize {
        self.position
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}: {}", self.position, self.message)
    }
}

/// A part of the text, shown in a message. It is cut to 60 characters, because the text may be
/// untrusted input.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(60) {
            _ if self.0.is_empty() => f.write_str(END),
            Some((end, _)) => write!(f, "{:?}...", &self.0[..end]),
            None => write!(f, "{:?}", self.0),
        }
    }
}
