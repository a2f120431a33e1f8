//! tollgate's own commands: every operation, on a limit by its name or by its text.

use std::sync::Arc;

use super::parser::Command;
use super::reply_format::ReplyFormat;
use super::store_command::{Action, KeyHit, Parsed, StoreCommand};
use super::throttle::integer;
use crate::service::{BoundRule, Operation, RequestError, Service};

/// The options behind the arguments that every command has.
#[derive(Default)]
struct Options<'a> {
    cost: Option<u64>,
    namespace: Option<&'a str>,
}

pub(super) fn hit<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    with_cost(service, command, Operation::Hit, ReplyFormat::Fields)
}

pub(super) fn allow<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    with_cost(service, command, Operation::Hit, ReplyFormat::Passes)
}

pub(super) fn peek<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    with_cost(service, command, Operation::Peek, ReplyFormat::Fields)
}

pub(super) fn take<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    with_cost(service, command, Operation::Take, ReplyFormat::Fields)
}

pub(super) fn charge<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    with_cost(service, command, Operation::Charge, ReplyFormat::Fields)
}

pub(super) fn refund<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    with_cost(service, command, Operation::Refund, ReplyFormat::Fields)
}

pub(super) fn set<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let arguments = Arguments::read(command)?;
    let units = units("units", command.argument(3))?;
    let (rule, key) = arguments.without_cost(service, &options(command, 4)?)?;
    let action = Action::Execute { rule, key, operation: Operation::Set(units) };
    Ok(StoreCommand { action, format: ReplyFormat::Fields })
}

pub(super) fn usage<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let arguments = Arguments::read(command)?;
    let (rule, key) = arguments.without_cost(service, &options(command, 3)?)?;
    let action = Action::Execute { rule, key, operation: Operation::Usage };
    Ok(StoreCommand { action, format: ReplyFormat::Usage })
}

pub(super) fn reset<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let arguments = Arguments::read(command)?;
    let (rule, key) = arguments.without_cost(service, &options(command, 3)?)?;
    Ok(StoreCommand { action: Action::Reset { rule, key }, format: ReplyFormat::Fields })
}

pub(super) fn all<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let hits = hits(service, command)?.into_iter().collect::<Result<_, _>>()?;
    Ok(StoreCommand { action: Action::All(hits), format: ReplyFormat::Fields })
}

pub(super) fn each<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let hits = hits(service, command)?;
    Ok(StoreCommand { action: Action::Each(hits), format: ReplyFormat::Fields })
}

type ParsedHit<'a> = Result<KeyHit<&'a [u8]>, RequestError>;

/// The arguments that all commands on one key have: `limit key`.
struct Arguments<'a> {
    limit: &'a str,
    key: &'a [u8],
}

impl<'a> Arguments<'a> {
    fn read(command: Command<'a, '_>) -> Result<Arguments<'a>, RequestError> {
        let limit = text("limit", command.argument(1))?;
        Ok(Arguments { limit, key: command.argument(2).unwrap_or_default() })
    }

    /// The rule, for commands that have no cost.
    fn without_cost(
        self,
        service: &Service,
        options: &Options<'a>,
    ) -> Result<(Arc<BoundRule>, &'a [u8]), RequestError> {
        let rule = service.resolve(options.namespace.unwrap_or_default(), self.limit)?;
        match options.cost {
            Some(_) => Err(RequestError::invalid("COST: not with this command")),
            None => Ok((rule, self.key)),
        }
    }
}

fn with_cost<'a>(
    service: &Service,
    command: Command<'a, '_>,
    operation: fn(u64) -> Operation,
    format: ReplyFormat,
) -> Parsed<'a> {
    let Arguments { limit, key } = Arguments::read(command)?;
    let options = options(command, 3)?;
    let rule = service.resolve(options.namespace.unwrap_or_default(), limit)?;
    let operation = operation(options.cost.unwrap_or(1));
    Ok(StoreCommand { action: Action::Execute { rule, key, operation }, format })
}

/// `items limit key cost ... [NAMESPACE ns]`: an error for each item that is not valid.
fn hits<'a>(
    service: &Service,
    command: Command<'a, '_>,
) -> Result<Vec<ParsedHit<'a>>, RequestError> {
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
    let hit = |first: usize| {
        let limit = text("limit", command.argument(first))?;
        let rule = service.resolve(namespace, limit)?;
        let key = command.argument(first + 1).unwrap_or_default();
        Ok((rule, key, units("cost", command.argument(first + 2))?))
    };
    Ok((2..end).step_by(3).map(hit).collect())
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
