//! The commands of redis-cell and of throttlecrab: the limit comes with every call.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Algorithm, Limit, Policy};

use super::parser::Command;
use super::question::{Question, What};
use super::session::Session;
use super::shape::Shape;
use crate::service::{BoundRule, Operation, RequestError, Service};

/// `CL.THROTTLE key max_burst count period [quantity]`: a burst of `max_burst + 1`; no quantity
/// looks, a negative one gives back.
pub(super) fn cell<'a>(
    session: &mut Session,
    service: &Service,
    command: Command<'a, '_>,
) -> Result<Question<&'a [u8]>, RequestError> {
    let [key, burst, count, period] = arguments(command)?;
    let burst = positive("max_burst", burst, 0)?.saturating_add(1);
    let bound = bound(session, service, "CL.THROTTLE", burst, count, period)?;
    let operation = match quantity(command)? {
        0 => Operation::Peek(0),
        units @ 1.. => Operation::Hit(units.unsigned_abs()),
        units => Operation::Refund(units.unsigned_abs()),
    };
    Ok(Question { what: What::Ask { bound, key, operation }, shape: Shape::Cell })
}

/// `THROTTLE key max_burst count period [quantity]`: a burst of `max_burst`; no quantity looks, and
/// nothing is given back.
pub(super) fn crab<'a>(
    session: &mut Session,
    service: &Service,
    command: Command<'a, '_>,
) -> Result<Question<&'a [u8]>, RequestError> {
    let [key, burst, count, period] = arguments(command)?;
    let burst = positive("max_burst", burst, 1)?;
    let bound = bound(session, service, "THROTTLE", burst, count, period)?;
    let operation = match quantity(command)? {
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
    Ok(Question { what: What::Ask { bound, key, operation }, shape: Shape::Crab })
}

fn arguments<'a>(command: Command<'a, '_>) -> Result<[&'a [u8]; 4], RequestError> {
    if command.len() > 6 {
        return Err(RequestError::invalid(
            "too many arguments: key max_burst count period [quantity]",
        ));
    }
    let argument = |index| command.argument(index).unwrap_or_default();
    Ok([argument(1), argument(2), argument(3), argument(4)])
}

fn quantity(command: Command<'_, '_>) -> Result<i64, RequestError> {
    command.argument(5).map_or(Ok(1), |text| integer("quantity", text))
}

/// The limit of these numbers. Its name keeps the counter of a key when burst and count change, as
/// in redis-cell; with another period it is another.
fn bound(
    session: &mut Session,
    service: &Service,
    name: &'static str,
    burst: u64,
    count: &[u8],
    period: &[u8],
) -> Result<Arc<BoundRule>, RequestError> {
    let (count, period) = (positive("count", count, 1)?, positive("period", period, 1)?);
    session.by_numbers.find(service.edition(), (name, burst, count, period), || {
        let limit = Limit::new(count, Duration::from_secs(period)).algorithm(Algorithm::Gcra);
        let limit = limit.burst(burst).name(name).build();
        let policy = limit.and_then(|limit| Policy::new([limit]));
        service.given("", &policy.map_err(tollgate::Error::from)?)
    })
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

/// A whole number, as Redis reads them: nothing but digits and a sign.
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
