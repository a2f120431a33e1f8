//! tollgate's own commands: every operation, on a limit by its name or by its text.

use std::sync::Arc;

use super::parser::Command;
use super::question::{Question, What};
use super::session::Session;
use super::shape::Shape;
use super::throttle::integer;
use crate::service::{BoundRule, Operation, RequestError, Service};

/// The longest words that a connection remembers: ten thousand of them have little room each.
const REMEMBERED: usize = 128;

/// What stands behind the arguments that every command has.
#[derive(Default)]
struct Options<'a> {
    cost: Option<u64>,
    namespace: Option<&'a str>,
}

pub(super) fn question<'a>(
    session: &mut Session,
    service: &Service,
    verb: &[u8],
    command: Command<'a, '_>,
) -> Result<Question<&'a [u8]>, RequestError> {
    if let b"TG.ALL" | b"TG.EACH" = verb {
        return several(session, service, verb, command);
    }
    let (limit, key) =
        (text("limit", command.argument(1))?, command.argument(2).unwrap_or_default());
    let set = if verb == b"TG.SET" { Some(units("units", command.argument(3))?) } else { None };
    let options = options(command, if set.is_some() { 4 } else { 3 })?;
    let bound = bound(session, service, options.namespace.unwrap_or_default(), limit)?;
    let cost = options.cost.unwrap_or(1);
    let (operation, shape) = match verb {
        b"TG.HIT" => (Operation::Hit(cost), Shape::Native),
        b"TG.ALLOW" => (Operation::Hit(cost), Shape::Passes),
        b"TG.PEEK" => (Operation::Peek(cost), Shape::Native),
        b"TG.TAKE" => (Operation::Take(cost), Shape::Native),
        b"TG.CHARGE" => (Operation::Charge(cost), Shape::Native),
        b"TG.REFUND" => (Operation::Refund(cost), Shape::Native),
        _ if options.cost.is_some() => {
            return Err(RequestError::invalid("COST: not with this command"));
        }
        b"TG.SET" => (Operation::Set(set.unwrap_or_default()), Shape::Native),
        b"TG.USAGE" => (Operation::Usage, Shape::Usage),
        _ => return Ok(Question { what: What::Reset { bound, key }, shape: Shape::Native }),
    };
    Ok(Question { what: What::Ask { bound, key, operation }, shape })
}

/// `items limit key cost ... [NAMESPACE ns]`.
fn several<'a>(
    session: &mut Session,
    service: &Service,
    verb: &[u8],
    command: Command<'a, '_>,
) -> Result<Question<&'a [u8]>, RequestError> {
    let count = units("items", command.argument(1))?;
    let end = usize::try_from(count).ok().and_then(|count| count.checked_mul(3)?.checked_add(2));
    let Some(end) = end.filter(|end| count > 0 && *end <= command.len()) else {
        return Err(RequestError::invalid(format!(
            "items {count}: must be the number of `limit key cost` that follow"
        )));
    };
    let options = options(command, end)?;
    if options.cost.is_some() {
        return Err(RequestError::invalid("COST: each item has its own"));
    }
    let namespace = options.namespace.unwrap_or_default();
    let mut item = |first: usize| {
        let limit = text("limit", command.argument(first))?;
        let bound = bound(session, service, namespace, limit)?;
        let key = command.argument(first + 1).unwrap_or_default();
        Ok((bound, key, units("cost", command.argument(first + 2))?))
    };
    let items = (2..end).step_by(3).map(&mut item);
    let what = match verb {
        b"TG.ALL" => What::All(items.collect::<Result<_, RequestError>>()?),
        _ => What::Each(items.collect()),
    };
    Ok(Question { what, shape: Shape::Native })
}

/// The limit of this name or text.
fn bound(
    session: &mut Session,
    service: &Service,
    namespace: &str,
    limit: &str,
) -> Result<Arc<BoundRule>, RequestError> {
    if namespace.len() + limit.len() > REMEMBERED {
        return service.resolve(namespace, limit);
    }
    let look = || service.resolve(namespace, limit);
    session.by_words.find(service.edition(), (namespace, limit), look)
}

fn options<'a>(command: Command<'a, '_>, first: usize) -> Result<Options<'a>, RequestError> {
    let mut options = Options::default();
    let mut at = first;
    while let Some(name) = command.argument(at) {
        let value = command.argument(at + 1);
        match &name.to_ascii_uppercase()[..] {
            b"COST" => options.cost = Some(units("COST", value)?),
            b"NAMESPACE" => options.namespace = Some(text("NAMESPACE", value)?),
            _ => {
                let brief = name[..name.len().min(32)].escape_ascii();
                return Err(RequestError::invalid(format!(
                    "option '{brief}': must be COST or NAMESPACE"
                )));
            }
        }
        at += 2;
    }
    Ok(options)
}

fn units(what: &str, argument: Option<&[u8]>) -> Result<u64, RequestError> {
    let number = integer(what, argument.unwrap_or_default())?;
    u64::try_from(number)
        .map_err(|_| RequestError::invalid(format!("{what} {number}: must not be negative")))
}

/// Names of rules are text; keys may be anything.
fn text<'a>(what: &str, argument: Option<&'a [u8]>) -> Result<&'a str, RequestError> {
    let argument = argument.ok_or_else(|| RequestError::invalid(format!("{what}: is missing")))?;
    std::str::from_utf8(argument)
        .map_err(|_| RequestError::invalid(format!("{what}: must be UTF-8")))
}
