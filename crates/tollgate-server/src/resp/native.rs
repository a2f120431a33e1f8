//! tollgate's own commands: every operation, on a limit by its name or by its text.

use std::sync::Arc;

use super::parser::Command;
use super::reply_format::ReplyFormat;
use super::store_command::{Action, KeyHit, Parsed, StoreCommand};
use super::throttle::integer;
use crate::service::{BoundRule, Operation, Receipts, RequestError, Service};

/// The options of a command, after the arguments that every command has.
#[derive(Default)]
struct Options<'a> {
    cost: Option<u64>,
    namespace: Option<&'a str>,
    /// Whether the reply has the receipts.
    receipt: bool,
    /// The receipts of a refund.
    receipts: Vec<&'a str>,
    units: Option<u64>,
}

/// The meaning of the option `RECEIPT` in a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReceiptOption {
    /// The command does not take this option.
    None,
    /// Asks for the receipts of what is charged.
    Asks,
    /// A receipt follows it.
    Gives,
}

impl Options<'_> {
    fn format(&self) -> ReplyFormat {
        if self.receipt { ReplyFormat::FieldsAndReceipts } else { ReplyFormat::Fields }
    }
}

pub(super) fn hit<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    charging(service, command, Operation::Hit)
}

pub(super) fn allow<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let (_, action) = with_cost(service, command, Operation::Hit, ReceiptOption::None)?;
    Ok(StoreCommand { action, format: ReplyFormat::Passes })
}

pub(super) fn peek<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let (_, action) = with_cost(service, command, Operation::Peek, ReceiptOption::None)?;
    Ok(StoreCommand { action, format: ReplyFormat::Fields })
}

pub(super) fn take<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    charging(service, command, Operation::Take)
}

pub(super) fn charge<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    charging(service, command, Operation::Charge)
}

pub(super) fn refund<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let (options, action) = with_cost(service, command, Operation::Refund, ReceiptOption::Gives)?;
    let action = match (action, &options) {
        (Action::Execute { rule, key, .. }, Options { receipts, cost: None, .. })
            if !receipts.is_empty() =>
        {
            let receipts = Receipts::read(receipts.iter().copied(), options.units)?;
            Action::Refund { rule, key, receipts }
        }
        (_, Options { receipts, cost: Some(_), .. }) if !receipts.is_empty() => {
            return Err(RequestError::invalid("COST: not with RECEIPT, which takes UNITS"));
        }
        (_, Options { units: Some(_), .. }) => {
            return Err(RequestError::invalid("UNITS: only with RECEIPT; a correction takes COST"));
        }
        (action, _) => action,
    };
    Ok(StoreCommand { action, format: ReplyFormat::Fields })
}

pub(super) fn set<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let arguments = Arguments::read(command)?;
    let units = units("units", command.argument(3))?;
    let options = options(command, 4, ReceiptOption::None)?;
    let (rule, key) = arguments.without_cost(service, &options)?;
    let action = Action::Execute { rule, key, operation: Operation::Set(units) };
    Ok(StoreCommand { action, format: ReplyFormat::Fields })
}

pub(super) fn usage<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let arguments = Arguments::read(command)?;
    let options = options(command, 3, ReceiptOption::None)?;
    let (rule, key) = arguments.without_cost(service, &options)?;
    let action = Action::Execute { rule, key, operation: Operation::Usage };
    Ok(StoreCommand { action, format: ReplyFormat::Usage })
}

pub(super) fn reset<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let arguments = Arguments::read(command)?;
    let options = options(command, 3, ReceiptOption::None)?;
    let (rule, key) = arguments.without_cost(service, &options)?;
    Ok(StoreCommand { action: Action::Reset { rule, key }, format: ReplyFormat::Fields })
}

pub(super) fn all<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let (hits, format) = hits(service, command)?;
    let hits = hits.into_iter().collect::<Result<_, _>>()?;
    Ok(StoreCommand { action: Action::All(hits), format })
}

pub(super) fn each<'a>(service: &Service, command: Command<'a, '_>) -> Parsed<'a> {
    let (hits, format) = hits(service, command)?;
    Ok(StoreCommand { action: Action::Each(hits), format })
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

/// A command that charges, whose reply has receipts if the client asks for them.
fn charging<'a>(
    service: &Service,
    command: Command<'a, '_>,
    operation: fn(u64) -> Operation,
) -> Parsed<'a> {
    let (options, action) = with_cost(service, command, operation, ReceiptOption::Asks)?;
    Ok(StoreCommand { action, format: options.format() })
}

fn with_cost<'a>(
    service: &Service,
    command: Command<'a, '_>,
    operation: fn(u64) -> Operation,
    receipt: ReceiptOption,
) -> Result<(Options<'a>, Action<&'a [u8]>), RequestError> {
    let Arguments { limit, key } = Arguments::read(command)?;
    let options = options(command, 3, receipt)?;
    let rule = service.resolve(options.namespace.unwrap_or_default(), limit)?;
    let operation = operation(options.cost.unwrap_or(1));
    Ok((options, Action::Execute { rule, key, operation }))
}

/// `items limit key cost ... [NAMESPACE ns] [RECEIPT]`: an error for each item that is not valid,
/// and the format of the replies.
fn hits<'a>(
    service: &Service,
    command: Command<'a, '_>,
) -> Result<(Vec<ParsedHit<'a>>, ReplyFormat), RequestError> {
    let count = units("items", command.argument(1))?;
    let end = usize::try_from(count).ok().and_then(|count| count.checked_mul(3)?.checked_add(2));
    let Some(end) = end.filter(|end| count > 0 && *end <= command.len()) else {
        return Err(RequestError::invalid(format!(
            "items {count}: must be the number of `limit key cost` that follow"
        )));
    };
    let options = options(command, end, ReceiptOption::Asks)?;
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
    Ok(((2..end).step_by(3).map(hit).collect(), options.format()))
}

fn options<'a>(
    command: Command<'a, '_>,
    first: usize,
    receipt: ReceiptOption,
) -> Result<Options<'a>, RequestError> {
    let mut options = Options::default();
    let mut at = first;
    while let Some(name) = command.argument(at) {
        let value = command.argument(at + 1);
        match &name.to_ascii_uppercase()[..] {
            b"COST" => options.cost = Some(units("COST", value)?),
            b"NAMESPACE" => options.namespace = Some(text("NAMESPACE", value)?),
            b"RECEIPT" if receipt == ReceiptOption::Asks => {
                options.receipt = true;
                // It has no value.
                at -= 1;
            }
            b"RECEIPT" if receipt == ReceiptOption::Gives => {
                options.receipts.push(text("RECEIPT", value)?);
            }
            b"UNITS" if receipt == ReceiptOption::Gives => {
                options.units = Some(units("UNITS", value)?);
            }
            b"RECEIPT" | b"UNITS" => {
                let name = name.to_ascii_uppercase();
                let name = name.escape_ascii();
                return Err(RequestError::invalid(format!("{name}: not with this command")));
            }
            _ => {
                let brief = name[..name.len().min(32)].escape_ascii();
                return Err(RequestError::invalid(format!(
                    "option '{brief}': must be COST, NAMESPACE, RECEIPT or UNITS"
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
