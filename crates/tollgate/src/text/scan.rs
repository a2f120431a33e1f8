//! The parser of limits.

use std::sync::LazyLock;
use std::time::Duration;

use super::{Problem, Shown, UNITS, Unit, bare};
use crate::calendar::{CalendarUnit, Weekday};
use crate::limit::{Algorithm, Kind, Limit, LimitBuilder, LimitError};

pub(super) const SEPARATORS: [char; 3] = [';', ',', '|'];
const QUOTA: &str = "a quota in digits, as in 10/second";
const PER: &str = "/, per, concurrent or total";
pub(super) const TOTAL: &str = "total";
const HOLD: &str = "a time from 1 second to 24 hours";
const PERIOD: &str = "a period from 1 millisecond to 100 years";
const UNIT: &str = "a unit of time: millisecond, second, minute, hour, day or week";
const OPTION: &str = "an option: an algorithm, burst=NUMBER, hold=TIME, name=WORD, \
                      name=\"TEXT\" or charge-denied; of a calendar limit also tz=ZONE, start=DAY, anchor=NUMBER or \
                      at=HOUR:MINUTE";
const CALENDAR_UNIT: &str = "a single day, week, month, quarter or year of the calendar";
const ZONE: &str = "a time zone such as Europe/Berlin";
const WEEKDAY: &str = "a day from monday to sunday";
const ANCHOR: &str = "a day of the month from 1 to 31";
const AT: &str = "a time from 00:00 to 23:59";
pub(super) static ALGORITHM: LazyLock<String> = LazyLock::new(|| {
    format!("an algorithm: {}", Algorithm::list("or", |one| one != Algorithm::Ban))
});
const BAN_OPTION: &str =
    "an option of a ban: after=COUNT/PERIOD, for=SPAN, doubling, max=SPAN, push or name=WORD";
const NAME: &str = "a name: letters, digits and . _ : / @ -, or anything in double quotes";
const ESCAPE: &str = "one of \\\" \\\\ \\n \\r \\t \\u{HEX}";
pub(super) const END: &str = "the end of the text";

/// Reads a text from left to right. To look ahead, copy the scanner.
#[derive(Clone, Copy)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    pub(super) at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut scanner = Scanner { text, at: 0 };
        scanner.blanks();
        scanner
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    pub(super) fn eat(&mut self, any: &[char]) -> bool {
        let found = self.rest().starts_with(any);
        if found {
            self.next();
        }
        found
    }

    pub(super) fn blanks(&mut self) {
        self.take(char::is_whitespace);
    }

    fn word(&mut self) -> &'a str {
        self.take(in_word)
    }

    /// Returns the error for an unexpected word or character.
    fn unexpected(&self, expected: &str) -> LimitError {
        let rest = self.rest();
        let word = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
        let end = word.max(rest.chars().next().map_or(0, char::len_utf8));
        Problem::found(self.at, &rest[..end], expected)
    }

    pub(super) fn end(&self, expected: &str) -> Result<(), LimitError> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn number(&mut self, expected: &str) -> Result<u64, LimitError> {
        if !self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.unexpected(expected));
        }
        let start = self.at;
        let digits = self.take(|c| c.is_ascii_digit() || c == '_');
        if digits.split('_').any(str::is_empty) {
            return Err(Problem::found(
                start,
                digits,
                "a number in which each _ is between two digits",
            ));
        }
        digits.replace('_', "").parse().map_err(|_| {
            Problem::found(start, digits, &format!("a number of at most {}", u64::MAX))
        })
    }

    fn per(&mut self) -> Result<(), LimitError> {
        if self.eat(&['/']) {
            return Ok(());
        }
        // Compares only three letters and not a whole word, because no blank is needed after `per`.
        match self.rest().get(..3) {
            Some(per) if per.eq_ignore_ascii_case("per") => {
                self.at += per.len();
                Ok(())
            }
            _ => Err(self.unexpected(PER)),
        }
    }

    /// Reads a duration. `longest` is the expected text in the error for a duration whose
    /// microseconds do not fit 64 bits.
    pub(super) fn span(&mut self, longest: &str) -> Result<Duration, LimitError> {
        let start = self.at;
        let mut count = 1;
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            count = self.number(UNIT)?;
            self.blanks();
        }
        let micros = self.unit()?;
        let micros = count.checked_mul(micros);
        micros
            .map(Duration::from_micros)
            .ok_or_else(|| Problem::found(start, &self.text[start..self.at], longest))
    }

    /// Reads a period, which may be a unit of the calendar.
    pub(super) fn period(&mut self) -> Result<Period, LimitError> {
        let start = *self;
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            if self.number(UNIT)? != 1 {
                *self = start;
            }
            self.blanks();
        }
        let word = normalised(self.word());
        let long = word.strip_suffix('s').unwrap_or(&word);
        let unit = match long {
            "d" => Some(CalendarUnit::Day),
            "w" => Some(CalendarUnit::Week),
            "mo" => Some(CalendarUnit::Month),
            "y" | "yr" => Some(CalendarUnit::Year),
            _ => CalendarUnit::ALL.into_iter().find(|unit| unit.name() == long),
        };
        let mut as_span = start;
        let span = as_span.span(PERIOD);
        match unit {
            Some(unit) => Ok(Period { span, unit: Some(unit) }),
            None => {
                *self = as_span;
                span.map(|span| Period { span: Ok(span), unit: None })
            }
        }
    }

    /// Returns the length of a unit in microseconds.
    fn unit(&mut self) -> Result<u64, LimitError> {
        let here = *self;
        let found = self.word();
        let word = found.to_ascii_lowercase();
        let long = word.strip_suffix('s').unwrap_or(&word);
        let known = |unit: &&Unit| unit.name == long || unit.short.contains(&word.as_str());
        if let Some(unit) = UNITS.iter().find(known) {
            return Ok(unit.micros);
        }
        let advice = match long {
            "month" | "mo" => "a month has no fixed length: say 30 days",
            "quarter" => "a quarter has no fixed length: say 91 days",
            "year" | "yr" | "y" => "a year has no fixed length: say 365 days",
            _ => return Err(here.unexpected(UNIT)),
        };
        Err(Problem::at(here.at, format!("found {}: {advice}", Shown(found))))
    }

    pub(super) fn algorithm(&mut self, expected: &str) -> Result<Algorithm, LimitError> {
        let here = *self;
        let word = normalised(self.word());
        let known = Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == word);
        known.ok_or_else(|| here.unexpected(expected))
    }

    fn name(&mut self) -> Result<String, LimitError> {
        if self.eat(&['"']) {
            return self.quoted();
        }
        self.value_of(bare, NAME).map(str::to_owned)
    }

    /// Reads a value of these characters, up to a blank or the end of the limit.
    fn value_of(
        &mut self,
        belongs: impl Fn(char) -> bool,
        expected: &str,
    ) -> Result<&'a str, LimitError> {
        let value = self.take(belongs);
        let rest = self.rest();
        let ends = rest.is_empty() || rest.starts_with(char::is_whitespace);
        if value.is_empty() || !(ends || rest.starts_with(SEPARATORS)) {
            return Err(self.unexpected(expected));
        }
        Ok(value)
    }

    fn zone(&mut self) -> Result<&'a str, LimitError> {
        self.value_of(|c| c.is_ascii_alphanumeric() || "/_+-".contains(c), ZONE)
    }

    pub(super) fn weekday(&mut self) -> Result<Weekday, LimitError> {
        let here = *self;
        self.word().parse().map_err(|_| here.unexpected(WEEKDAY))
    }

    /// Reads a time of the day, such as 06:00.
    pub(super) fn time_of_day(&mut self) -> Result<(u8, u8), LimitError> {
        let start = self.at;
        let text = self.value_of(|c| c.is_ascii_digit() || c == ':', AT)?;
        let (hour, minute) = text.split_once(':').unwrap_or((text, ""));
        let number = |digits: &str, below: u8| {
            digits.parse().ok().filter(|number| *number < below && digits.len() == 2)
        };
        match (number(hour, 24), number(minute, 60)) {
            (Some(hour), Some(minute)) => Ok((hour, minute)),
            _ => Err(Problem::found(start, text, AT)),
        }
    }

    fn quoted(&mut self) -> Result<String, LimitError> {
        let mut name = String::new();
        loop {
            match self.next() {
                None => return Err(self.unexpected("\" after the name")),
                Some('"') => return Ok(name),
                Some('\\') => name.push(self.escape()?),
                Some(plain) => name.push(plain),
            }
        }
    }

    fn escape(&mut self) -> Result<char, LimitError> {
        let start = self.at - '\\'.len_utf8();
        let meant = match self.next() {
            Some(itself @ ('"' | '\\')) => Some(itself),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('u') => self.code_point(),
            _ => None,
        };
        meant.ok_or_else(|| Problem::found(start, &self.text[start..self.at], ESCAPE))
    }

    fn code_point(&mut self) -> Option<char> {
        let open = self.eat(&['{']);
        let digits = self.take(|c| c.is_ascii_hexdigit());
        if !(open && self.eat(&['}'])) {
            return None;
        }
        char::from_u32(u32::from_str_radix(digits, 16).ok()?)
    }

    pub(super) fn limit(&mut self) -> Result<Limit, LimitError> {
        let mut ahead = *self;
        if normalised(ahead.word()) == "ban" {
            *self = ahead;
            return self.ban();
        }
        let quota_at = self.at;
        let quota = self.number(QUOTA)?;
        self.blanks();
        let mut places = Places { quota: quota_at, period: self.at, ..Places::default() };
        let mut ahead = *self;
        let word = normalised(ahead.word());
        let without_period = match word.as_str() {
            TOTAL => Some(Limit::total(quota)),
            word if word == Algorithm::Concurrent.as_str() => Some(Limit::concurrent(quota)),
            _ => None,
        };
        let (mut options, period) = if let Some(limit) = without_period {
            places.algorithm = Some(self.at);
            *self = ahead;
            (limit, None)
        } else {
            self.per()?;
            self.blanks();
            places.period = self.at;
            (Limit::new(quota, Duration::ZERO), Some(self.period()?))
        };
        self.blanks();
        while !self.rest().is_empty() && !self.rest().starts_with(SEPARATORS) {
            options = places.option(self, options)?;
            self.blanks();
        }
        if let Some(Period { span, unit }) = period {
            if options.has_calendar() && unit.is_none() {
                let found = self.text[places.period..].split_whitespace().next();
                return Err(Problem::found(
                    places.period,
                    found.unwrap_or_default(),
                    CALENDAR_UNIT,
                ));
            }
            options = options.period(span, unit)?;
        }
        options.build().map_err(|error| places.locate(error))
    }

    /// Reads the options of a ban, after its first word.
    fn ban(&mut self) -> Result<Limit, LimitError> {
        let mut options = BanOptions::default();
        self.blanks();
        while !self.rest().is_empty() && !self.rest().starts_with(SEPARATORS) {
            options.option(self)?;
            self.blanks();
        }
        options.limit(self)
    }

    fn value(&mut self) -> Result<usize, LimitError> {
        self.blanks();
        if !self.eat(&['=']) {
            return Err(self.unexpected("= followed by a value"));
        }
        self.blanks();
        Ok(self.at)
    }
}

/// A period as it was written.
pub(super) struct Period {
    /// The period, or the error for a unit without a fixed length.
    pub(super) span: Result<Duration, LimitError>,
    /// The unit, if the period is a single unit of the calendar.
    pub(super) unit: Option<CalendarUnit>,
}

/// The positions of the values of a limit, for errors. `None` means that the option was not
/// written.
#[derive(Default)]
struct Places {
    quota: usize,
    period: usize,
    algorithm: Option<usize>,
    burst: Option<usize>,
    name: Option<usize>,
    charge_denied: Option<usize>,
    hold: Option<usize>,
    zone: Option<usize>,
    week_start: Option<usize>,
    anchor: Option<usize>,
    at: Option<usize>,
}

impl Places {
    fn option(
        &mut self,
        scanner: &mut Scanner<'_>,
        limit: LimitBuilder,
    ) -> Result<LimitBuilder, LimitError> {
        let start = scanner.at;
        let mut ahead = *scanner;
        let (before, limit) = match normalised(ahead.word()).as_str() {
            "burst" => {
                let before = self.burst.replace(ahead.value()?);
                (before, limit.burst(ahead.number("a burst in digits")?))
            }
            "name" => {
                let before = self.name.replace(ahead.value()?);
                (before, limit.name(ahead.name()?))
            }
            "hold" => {
                let before = self.hold.replace(ahead.value()?);
                (before, limit.hold(ahead.span(HOLD)?))
            }
            "tz" => {
                let before = self.zone.replace(ahead.value()?);
                (before, limit.zone(ahead.zone()?))
            }
            "start" => {
                let before = self.week_start.replace(ahead.value()?);
                (before, limit.week_start(ahead.weekday()?))
            }
            "anchor" => {
                let before = self.anchor.replace(ahead.value()?);
                let day = ahead.number(ANCHOR)?;
                (before, limit.anchor(u8::try_from(day).unwrap_or(u8::MAX)))
            }
            "at" => {
                let before = self.at.replace(ahead.value()?);
                let (hour, minute) = ahead.time_of_day()?;
                (before, limit.at(hour, minute))
            }
            "charge-denied" => (self.charge_denied.replace(start), limit.charge_denied()),
            _ => {
                ahead.at = start;
                let algorithm = ahead.algorithm(OPTION)?;
                (self.algorithm.replace(start), limit.algorithm(algorithm))
            }
        };
        if before.is_some() {
            return Err(scanner.unexpected("each option at most once, and at most one algorithm"));
        }
        *scanner = ahead;
        Ok(limit)
    }

    fn locate(&self, error: LimitError) -> LimitError {
        let position = match error.broken() {
            Some(Kind::Quota | Kind::Concurrent) => Some(self.quota),
            Some(Kind::Hold | Kind::HoldWithoutConcurrent) => self.hold,
            Some(
                Kind::Period
                | Kind::PeriodFraction
                | Kind::PeriodOfConcurrent
                | Kind::PeriodOfBudget
                | Kind::CalendarPeriod
                | Kind::WithoutCalendar("unit"),
            ) => Some(self.period),
            Some(Kind::Burst | Kind::BurstWithoutBucket | Kind::Refill) => self.burst,
            Some(Kind::ChargeDenied) => self.charge_denied,
            Some(Kind::Name) => self.name,
            Some(Kind::NoCalendars | Kind::BudgetWithoutName) => self.algorithm,
            Some(Kind::Anchor | Kind::AnchorWithoutMonth | Kind::WithoutCalendar("anchor")) => {
                self.anchor
            }
            Some(Kind::StartWithoutWeek | Kind::WithoutCalendar("start")) => self.week_start,
            Some(Kind::At | Kind::WithoutCalendar("at")) => self.at,
            Some(Kind::WithoutCalendar(_)) => self.zone,
            None if error.is_zone() => self.zone,
            // The rules of bans.
            Some(_) => None,
            None => return error,
        };
        Problem::at(position.unwrap_or(self.quota), error.to_string())
    }
}

/// The options of a ban and their positions. `None` means that the option was not written.
#[derive(Default)]
struct BanOptions {
    /// The count, its position, the period and its position.
    after: Option<(u64, usize, Duration, usize)>,
    length: Option<(Duration, usize)>,
    doubling: Option<usize>,
    max: Option<(Duration, usize)>,
    push: Option<usize>,
    name: Option<(String, usize)>,
}

impl BanOptions {
    fn option(&mut self, scanner: &mut Scanner<'_>) -> Result<(), LimitError> {
        let start = scanner.at;
        let mut ahead = *scanner;
        let written_before = match normalised(ahead.word()).as_str() {
            "after" => {
                let count_at = ahead.value()?;
                let count = ahead.number("a number of denials in digits, as in after=10/minute")?;
                ahead.blanks();
                ahead.per()?;
                ahead.blanks();
                let period_at = ahead.at;
                let period = ahead.span(PERIOD)?;
                self.after.replace((count, count_at, period, period_at)).is_some()
            }
            "for" => {
                let at = ahead.value()?;
                self.length.replace((ahead.span(PERIOD)?, at)).is_some()
            }
            "max" => {
                let at = ahead.value()?;
                self.max.replace((ahead.span(PERIOD)?, at)).is_some()
            }
            "doubling" => self.doubling.replace(start).is_some(),
            "push" => self.push.replace(start).is_some(),
            "name" => {
                let at = ahead.value()?;
                self.name.replace((ahead.name()?, at)).is_some()
            }
            _ => return Err(scanner.unexpected(BAN_OPTION)),
        };
        if written_before {
            return Err(scanner.unexpected("each option at most once"));
        }
        *scanner = ahead;
        Ok(())
    }

    /// Builds the ban. `end` is the scanner after the options of the ban.
    fn limit(self, end: &Scanner<'_>) -> Result<Limit, LimitError> {
        let Some((count, count_at, period, period_at)) = self.after else {
            return Err(end.unexpected("after=COUNT/PERIOD, which every ban has"));
        };
        let Some((length, length_at)) = self.length else {
            return Err(end.unexpected("for=SPAN, which every ban has"));
        };
        let mut ban = Limit::ban(count, period, length);
        match (self.doubling, &self.max) {
            (Some(_), Some((max, _))) => ban = ban.doubling(*max),
            (Some(at), None) => return Err(Problem::at(at, "doubling without max=SPAN")),
            (None, Some((_, at))) => return Err(Problem::at(*at, "max without doubling")),
            (None, None) => {}
        }
        if self.push.is_some() {
            ban = ban.push();
        }
        let name_at = self.name.as_ref().map(|(_, at)| *at);
        if let Some((name, _)) = self.name {
            ban = ban.name(name);
        }
        ban.build().map_err(|error| {
            let position = match error.broken() {
                Some(Kind::Period | Kind::PeriodFraction) => period_at,
                Some(Kind::BanLength | Kind::BanLengthFraction) => length_at,
                Some(Kind::BanMax | Kind::BanMaxFraction) => {
                    self.max.map_or(length_at, |(_, at)| at)
                }
                Some(Kind::Name) => name_at.unwrap_or(count_at),
                _ => count_at,
            };
            Problem::at(position, error.to_string())
        })
    }
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '-' || c == '_'
}

/// Returns the word in lower case and with `-` for `_`, so that different spellings compare equal.
fn normalised(word: &str) -> String {
    word.replace('_', "-").to_ascii_lowercase()
}
