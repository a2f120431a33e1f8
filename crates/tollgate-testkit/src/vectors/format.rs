//! The text format of vectors: timelines that people read and tests replay.
//!
//! ```text
//! # What one sees.
//! limit 2/second burst=3
//! at 0s     hit 3      -> allow used 3 left 0 reset 1.5s
//! at 250ms  hit        -> deny  used 3 left 0 retry 250ms reset 1.25s
//! at 250ms  refund @1  -> allow used 0 left 3 reset 0s
//! ```
//!
//! - `limit TEXT` begins a block: a fresh key under this limit. Blank lines and lines that begin
//!   with `#` are ignored.
//! - `at TIME OPERATION -> allow|deny FIELDS`. Times count from [`EPOCH`], or are written as in
//!   `2011-12-30T10:00:00Z`, and may go back. Only the fields that are written are checked: `used N`, `left N`, `retry DURATION|never|unknown`, `reset
//!   DURATION`, each at most once.
//! - Operations: `hit [N]`, `peek [N]`, `take N`, `charge N`, `set N`, `refund N`, `refund @LINE`
//!   (by the receipt of the block's LINE-th `at`, from 1), `usage`, `reset`. Operations that decide
//!   nothing are written with `allow`.
//! - Durations are a number and `us ms s m h d`; seconds may have up to six decimals.

use std::fmt;
use std::time::Duration;

use tollgate::{Limit, NoRetry, Outcome, Timestamp};

/// The start of the times of all vectors: 2026-01-01T00:00:00Z, a Thursday.
pub const EPOCH: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// A limit and the steps of a fresh key under it.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the words of the format")]
pub struct Block {
    /// The place of the block: the file's name and the line of `limit`.
    pub place: FileLine,
    pub limit: Limit,
    pub steps: Vec<Step>,
}

/// One `at` line.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the words of the format")]
pub struct Step {
    pub place: FileLine,
    pub now: Timestamp,
    pub action: Action,
    pub expected: Expected,
}

/// A call of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the words of the format")]
pub enum Action {
    Hit(u64),
    Peek(u64),
    Take(u64),
    Charge(u64),
    Set(u64),
    /// Units without a receipt.
    Refund(u64),
    /// A refund by the receipt of that step of the block, from 0.
    RefundOf(usize),
    Usage,
    Reset,
}

/// The expected fields of the answer; `None` where the line names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the words of the format")]
pub struct Expected {
    pub allowed: bool,
    pub used: Option<u64>,
    pub left: Option<u64>,
    pub retry: Option<Retry>,
    pub reset: Option<Duration>,
}

/// A wait, `never` if no wait helps, or `unknown` if only given back units help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the words of the format")]
pub enum Retry {
    After(Duration),
    Never,
    Unknown,
}

impl From<&Outcome> for Retry {
    fn from(outcome: &Outcome) -> Retry {
        match (outcome.retry_after(), outcome.no_retry()) {
            (Some(wait), _) => Retry::After(wait),
            (None, Some(NoRetry::Unknown)) => Retry::Unknown,
            (None, _) => Retry::Never,
        }
    }
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the words of the format")]
pub struct FileLine {
    pub file: String,
    pub line: usize,
}

impl fmt::Display for FileLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Reads the blocks of a file; `file` is for messages only.
///
/// # Errors
/// The first line that cannot be parsed: its place, what was found and what was expected.
pub fn read(file: &str, text: &str) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let place = FileLine { file: file.to_owned(), line: index + 1 };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at_place = |problem: String| format!("{place}: {problem}");
        if let Some(limit) = line.strip_prefix("limit ") {
            let limit = limit.trim().parse::<Limit>();
            let limit = limit.map_err(|error| at_place(format!("limit: {error}")))?;
            blocks.push(Block { place, limit, steps: Vec::new() });
        } else if let Some(rest) = line.strip_prefix("at ") {
            let block = blocks.last_mut();
            let block = block.ok_or_else(|| at_place(expected(line, "a limit before it")))?;
            let (now, action, expected) = step(rest, block.steps.len()).map_err(at_place)?;
            block.steps.push(Step { place, now, action, expected });
        } else {
            return Err(at_place(expected(line, "`limit`, `at` or `#`")));
        }
    }
    Ok(blocks)
}

fn expected(found: &str, what: &str) -> String {
    format!("found {found:?}, expected {what}")
}

/// Parses what follows `at`. `before` is the number of steps before it, for receipts.
fn step(rest: &str, before: usize) -> Result<(Timestamp, Action, Expected), String> {
    let (asked, answer) =
        rest.split_once("->").ok_or_else(|| expected(rest, "-> and an answer"))?;
    let mut words = asked.split_whitespace();
    let now = time(words.next().unwrap_or_default())?;
    let action = action(words.next().unwrap_or_default(), words.next(), before)?;
    if let Some(word) = words.next() {
        return Err(expected(word, "->"));
    }
    let expected = answered(answer)?;
    if !expected.allowed && !matches!(action, Action::Hit(_) | Action::Peek(_) | Action::Take(_)) {
        return Err(format!("found deny, expected allow: {action:?} decides nothing"));
    }
    Ok((now, action, expected))
}

fn action(word: &str, argument: Option<&str>, before: usize) -> Result<Action, String> {
    let units = || number(argument.unwrap_or_default());
    let one_or = || argument.map_or(Ok(1), number);
    let alone = |action| match argument {
        Some(argument) => Err(expected(argument, "->")),
        None => Ok(action),
    };
    match word {
        "hit" => one_or().map(Action::Hit),
        "peek" => one_or().map(Action::Peek),
        "take" => units().map(Action::Take),
        "charge" => units().map(Action::Charge),
        "set" => units().map(Action::Set),
        "refund" => match argument.and_then(|argument| argument.strip_prefix('@')) {
            Some(line) => match number(line)? {
                line @ 1.. if line <= before as u64 => Ok(Action::RefundOf(line as usize - 1)),
                line => Err(format!("found @{line}, expected one of the {before} steps before")),
            },
            None => units().map(Action::Refund),
        },
        "usage" => alone(Action::Usage),
        "reset" => alone(Action::Reset),
        _ => Err(expected(word, "hit, peek, take, charge, set, refund, usage or reset")),
    }
}

fn answered(answer: &str) -> Result<Expected, String> {
    let mut words = answer.split_whitespace();
    let allowed = match words.next().unwrap_or_default() {
        "allow" => true,
        "deny" => false,
        word => return Err(expected(word, "allow or deny")),
    };
    let mut fields = Expected { allowed, ..Expected::default() };
    while let Some(field) = words.next() {
        let value = words.next().unwrap_or_default();
        let twice = match field {
            "used" => fields.used.replace(number(value)?).is_some(),
            "left" => fields.left.replace(number(value)?).is_some(),
            "retry" if value == "never" => fields.retry.replace(Retry::Never).is_some(),
            "retry" if value == "unknown" => fields.retry.replace(Retry::Unknown).is_some(),
            "retry" => fields.retry.replace(Retry::After(duration(value)?)).is_some(),
            "reset" => fields.reset.replace(duration(value)?).is_some(),
            _ => return Err(expected(field, "used, left, retry or reset")),
        };
        if twice {
            return Err(expected(field, "each field once"));
        }
    }
    Ok(fields)
}

fn number(word: &str) -> Result<u64, String> {
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let value = digits.then(|| word.parse().ok()).flatten();
    value.ok_or_else(|| expected(word, "a number"))
}

fn time(word: &str) -> Result<Timestamp, String> {
    match word.strip_suffix('Z').and_then(|word| word.split_once('T')) {
        Some((date, clock)) => date_and_clock(date, clock)
            .ok_or_else(|| expected(word, "a time such as 2011-12-30T10:00:00Z")),
        None => duration(word).map(|since| EPOCH + since),
    }
}

fn date_and_clock(date: &str, clock: &str) -> Option<Timestamp> {
    let numbers = |text: &str, separator| -> Option<[u64; 3]> {
        let parts: Vec<u64> =
            text.split(separator).map(|part| number(part).ok()).collect::<Option<_>>()?;
        parts.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let (clock, parts) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(clock, ':')?;
    let valid = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60
        && parts.len() <= 6;
    let micros = number(&format!("{parts:0<6}")).ok()?;
    // Years begin with March here, so that a leap day is the last day of one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let seconds = (days - 719_468) * 86_400 + hour * 3_600 + minute * 60 + second;
    valid.then(|| Timestamp::from_micros(seconds * 1_000_000 + micros))
}

fn duration(word: &str) -> Result<Duration, String> {
    let wrong = || expected(word, "a duration such as 0s, 100ms, 1.5s, 250us, 2m, 1h or 1d");
    let end = word.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(word.len());
    let (digits, unit) = word.split_at(end);
    let scale: u64 = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(wrong()),
    };
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, "0"));
    if digits.contains('.') && (unit != "s" || decimals.len() > 6) {
        return Err(wrong());
    }
    let micros = number(whole).map_err(|_| wrong())?.checked_mul(scale).ok_or_else(wrong)?;
    // Decimals are parts of a second: "5" is "500000".
    let part = number(&format!("{decimals:0<6}")).map_err(|_| wrong())?;
    Ok(Duration::from_micros(micros.saturating_add(part)))
}

/// A duration in the exact notation of vectors.
pub fn show(span: Duration) -> String {
    let micros = span.as_micros();
    match micros {
        0 => "0s".to_owned(),
        _ if micros.is_multiple_of(86_400_000_000) => format!("{}d", micros / 86_400_000_000),
        _ if micros.is_multiple_of(3_600_000_000) => format!("{}h", micros / 3_600_000_000),
        _ if micros.is_multiple_of(60_000_000) => format!("{}m", micros / 60_000_000),
        _ if micros.is_multiple_of(1_000_000) => format!("{}s", micros / 1_000_000),
        1_000_000.. => {
            let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            format!("{}s", text.trim_end_matches('0'))
        }
        _ if micros.is_multiple_of(1_000) => format!("{}ms", micros / 1_000),
        _ => format!("{micros}us"),
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Retry::After(wait) => f.write_str(&show(*wait)),
            Retry::Never => f.write_str("never"),
            Retry::Unknown => f.write_str("unknown"),
        }
    }
}
