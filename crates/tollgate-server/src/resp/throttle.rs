//! The commands of redis-cell and of throttlecrab, whose limit comes with every call.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Algorithm, Limit, Policy};

use super::parser::Command;
use super::reply_format::ReplyFormat;
use super::store_command::{Action, Parsed, StoreCommand};
use crate::service::{BoundRule, Operation, RequestError, Service};

/// `CL.THROTTLE key max_burst count period [quantity]`: a burst of `max_burst + 1`; no quantity
/// peeks, a negative one refunds.
pub(super) fn redis_cell<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let rule = rule(service, command, &REDIS_CELL)?;
    let quantity = command.argument(5).map(|text| integer("quantity", text));
    let operation = match quantity.transpose()?.unwrap_or(1) {
        0 => Operation::Peek(0),
        units @ 1.. => Operation::Hit(units.unsigned_abs()),
        units => Operation::Refund(units.unsigned_abs()),
    };
    let key = command.argument(1).unwrap_or_default();
    let action = Action::Execute { rule, key, operation };
    Ok(StoreCommand { action, format: ReplyFormat::RedisCell })
}

/// `THROTTLE key max_burst count period [quantity]`: a burst of `max_burst`; no quantity peeks, and
/// nothing is refunded.
pub(super) fn throttlecrab<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let rule = rule(service, command, &THROTTLECRAB)?;
    let quantity = command.argument(5).map(|text| integer("quantity", text));
    let operation = match quantity.transpose()?.unwrap_or(1) {
        0 => Operation::Peek(0),
        units => match u64::try_from(units) {
            Ok(units) => Operation::Hit(units),
            Err(_) => {
                return Err(RequestError::invalid(format!(
                    "quantity {units}: must not be negative"
                )));
            }
        },
    };
    let key = command.argument(1).unwrap_or_default();
    let action = Action::Execute { rule, key, operation };
    Ok(StoreCommand { action, format: ReplyFormat::Throttlecrab })
}

/// The differences between the two commands.
struct Dialect {
    /// The name of the command's limits. A counter with a name stays when burst and count change,
    /// as in redis-cell; with another period it is another counter.
    name: &'static str,
    /// The namespace of the texts by which the command's limits are found again: no client can send
    /// it as a namespace.
    texts: &'static [u8],
    least_burst: u64,
    /// The burst is `max_burst` and this number of units.
    more: u64,
}

const REDIS_CELL: Dialect =
    Dialect { name: "CL.THROTTLE", texts: b"\xffCL.THROTTLE", least_burst: 0, more: 1 };
const THROTTLECRAB: Dialect =
    Dialect { name: "THROTTLE", texts: b"\xffTHROTTLE", least_burst: 1, more: 0 };

/// The limit of the arguments `max_burst count period`, prepared by this command or an earlier one.
fn rule(
    service: &Service,
    command: Command<'_, '_>,
    dialect: &Dialect,
) -> Result<Arc<BoundRule>, RequestError> {
    if command.len() > 6 {
        return Err(RequestError::invalid(
            "too many arguments: key max_burst count period [quantity]",
        ));
    }
    let numbers = [2, 3, 4].map(|index| command.argument(index).unwrap_or_default());
    let mut room = [0; LONGEST_TEXT];
    let text = joined(numbers, &mut room);
    if let Some(text) = text
        && let Some(rule) = service.inline_limits.find(dialect.texts, text)
    {
        return Ok(rule);
    }
    let [burst, count, period] = numbers;
    let burst = positive("max_burst", burst, dialect.least_burst)?.saturating_add(dialect.more);
    let (count, period) = (positive("count", count, 1)?, positive("period", period, 1)?);
    let limit = Limit::new(count, Duration::from_secs(period)).algorithm(Algorithm::Gcra);
    let limit = limit.burst(burst).name(dialect.name).build();
    let policy = limit.and_then(|limit| Policy::new([limit])).map_err(tollgate::Error::from)?;
    service.inline_limit("", &policy, text.map(|text| (dialect.texts, text)))
}

/// Three numbers of at most 19 digits with a sign, and the blanks between.
const LONGEST_TEXT: usize = 3 * 20 + 2;

/// The numbers with blanks between; `None` if they are longer than any valid ones.
fn joined<'r>(numbers: [&[u8]; 3], room: &'r mut [u8; LONGEST_TEXT]) -> Option<&'r [u8]> {
    let mut end = 0;
    for number in numbers {
        if end > 0 {
            *room.get_mut(end)? = b' ';
            end += 1;
        }
        room.get_mut(end..end + number.len())?.copy_from_slice(number);
        end += number.len();
    }
    room.get(..end)
}

fn positive(what: &str, text: &[u8], least: u64) -> Result<u64, RequestError> {
    match u64::try_from(integer(what, text)?) {
        Ok(number) if number >= least => Ok(number),
        _ => Err(RequestError::invalid(format!(
            "{what} {}: must be at least {least}",
            text.escape_ascii()
        ))),
    }
}

/// Parses a whole number like Redis: nothing but digits and a sign.
pub(super) fn integer(what: &str, text: &[u8]) -> Result<i64, RequestError> {
    let wrong = || {
        let brief = text[..text.len().min(32)].escape_ascii();
        RequestError::invalid(format!("{what} '{brief}': must be an integer"))
    };
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || digits.len() > 19 {
        return Err(wrong());
    }
    let mut number = 0_i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(wrong());
        }
        number = number
            .checked_mul(10)
            .and_then(|number| number.checked_add(i64::from(digit - b'0')))
            .ok_or_else(wrong)?;
    }
    Ok(if digits.len() < text.len() { -number } else { number })
}
