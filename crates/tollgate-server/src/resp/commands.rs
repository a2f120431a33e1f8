//! The list of commands: name, arity, key, handler and summary of each.

use super::parser::Command;
use super::reply::Reply;
use super::session::Session;
use super::store_command::Parsed;
use super::{handshake, native, throttle, transaction};
use crate::service::Service;

/// How a command is run.
#[derive(Clone, Copy)]
pub(super) enum Handler {
    /// Without the store: the function writes the reply.
    Reply(fn(&mut Session, Command<'_, '_>, &mut Reply<'_>)),
    /// By the store: the function parses the arguments.
    Store(for<'a> fn(&Service, Command<'a, '_>) -> Parsed<'a>),
    /// Runs the commands since `MULTI`.
    Exec,
}

/// One command.
pub(super) struct CommandSpec {
    pub(super) name: &'static str,
    /// The number of arguments with the name; if negative, the least number, as in Redis.
    pub(super) arity: i64,
    /// The index of its key; 0 without one.
    pub(super) key: usize,
    pub(super) handler: Handler,
    pub(super) summary: &'static str,
}

const fn spec(
    name: &'static str,
    arity: i64,
    key: usize,
    handler: Handler,
    summary: &'static str,
) -> CommandSpec {
    CommandSpec { name, arity, key, handler, summary }
}

pub(super) const ALL: &[CommandSpec] = &[
    spec(
        "CL.THROTTLE",
        -5,
        1,
        Handler::Store(throttle::redis_cell),
        "CL.THROTTLE key max_burst count period [quantity]: as redis-cell",
    ),
    spec(
        "THROTTLE",
        -5,
        1,
        Handler::Store(throttle::throttlecrab),
        "THROTTLE key max_burst count period [quantity]: as throttlecrab",
    ),
    spec(
        "TG.ALLOW",
        -3,
        2,
        Handler::Store(native::allow),
        "TG.ALLOW limit key [COST n] [NAMESPACE ns]: a hit, as 1 or 0",
    ),
    spec(
        "TG.HIT",
        -3,
        2,
        Handler::Store(native::hit),
        "TG.HIT limit key [COST n] [NAMESPACE ns] [RECEIPT]: decide and charge",
    ),
    spec(
        "TG.PEEK",
        -3,
        2,
        Handler::Store(native::peek),
        "TG.PEEK limit key [COST n] [NAMESPACE ns]: would a hit pass?",
    ),
    spec(
        "TG.TAKE",
        -3,
        2,
        Handler::Store(native::take),
        "TG.TAKE limit key [COST n] [NAMESPACE ns] [RECEIPT]: as much as fits",
    ),
    spec(
        "TG.CHARGE",
        -3,
        2,
        Handler::Store(native::charge),
        "TG.CHARGE limit key [COST n] [NAMESPACE ns] [RECEIPT]: charge unchecked",
    ),
    spec(
        "TG.REFUND",
        -3,
        2,
        Handler::Store(native::refund),
        "TG.REFUND limit key [COST n | RECEIPT r [UNITS n]] [NAMESPACE ns]: give back",
    ),
    spec(
        "TG.SET",
        -4,
        2,
        Handler::Store(native::set),
        "TG.SET limit key units [NAMESPACE ns]: put the units in use at a number",
    ),
    spec(
        "TG.RESET",
        -3,
        2,
        Handler::Store(native::reset),
        "TG.RESET limit key [NAMESPACE ns]: forget the key",
    ),
    spec(
        "TG.USAGE",
        -3,
        2,
        Handler::Store(native::usage),
        "TG.USAGE limit key [NAMESPACE ns]: units in use",
    ),
    spec(
        "TG.ALL",
        -5,
        0,
        Handler::Store(native::all),
        "TG.ALL items limit key cost [limit key cost ...] [NAMESPACE ns] [RECEIPT]: all or nothing",
    ),
    spec(
        "TG.EACH",
        -5,
        0,
        Handler::Store(native::each),
        "TG.EACH items limit key cost [limit key cost ...] [NAMESPACE ns] [RECEIPT]: each on its own",
    ),
    spec("AUTH", -2, 0, Handler::Reply(handshake::auth), "AUTH [user] secret"),
    spec(
        "CLIENT",
        -2,
        0,
        Handler::Reply(handshake::client),
        "CLIENT ID|INFO|LIST|GETNAME|SETNAME|SETINFO|NO-EVICT|NO-TOUCH|TRACKING",
    ),
    spec("COMMAND", -1, 0, Handler::Reply(handshake::command), "COMMAND [COUNT|DOCS|INFO|LIST]"),
    spec("CONFIG", -2, 0, Handler::Reply(handshake::config), "CONFIG GET pattern: always empty"),
    spec(
        "DISCARD",
        1,
        0,
        Handler::Reply(transaction::discard),
        "DISCARD: forget the commands since MULTI",
    ),
    spec("ECHO", 2, 0, Handler::Reply(handshake::echo), "ECHO message"),
    spec("EXEC", 1, 0, Handler::Exec, "EXEC: run the commands since MULTI, in order"),
    spec(
        "HELLO",
        -1,
        0,
        Handler::Reply(handshake::hello),
        "HELLO [2|3 [AUTH user secret] [SETNAME name]]",
    ),
    spec("INFO", -1, 0, Handler::Reply(handshake::info), "INFO [section ...]"),
    spec("MULTI", 1, 0, Handler::Reply(transaction::multi), "MULTI: keep commands until EXEC"),
    spec("PING", -1, 0, Handler::Reply(handshake::ping), "PING [message]"),
    spec("QUIT", -1, 0, Handler::Reply(handshake::quit), "QUIT"),
    spec("READONLY", 1, 0, Handler::Reply(handshake::ok), "READONLY"),
    spec("READWRITE", 1, 0, Handler::Reply(handshake::ok), "READWRITE"),
    spec("RESET", 1, 0, Handler::Reply(handshake::reset), "RESET: as if newly connected"),
    spec("SELECT", 2, 0, Handler::Reply(handshake::select), "SELECT 0"),
    spec("UNWATCH", 1, 0, Handler::Reply(handshake::ok), "UNWATCH: does nothing"),
    spec(
        "WATCH",
        -2,
        0,
        Handler::Reply(transaction::watch),
        "WATCH key [key ...]: does nothing; no key can be read",
    ),
];

pub(super) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    ALL.iter().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}

impl CommandSpec {
    pub(super) fn takes(&self, arguments: usize) -> bool {
        let arguments = i64::try_from(arguments).unwrap_or(i64::MAX);
        if self.arity < 0 { arguments >= -self.arity } else { arguments == self.arity }
    }

    pub(super) fn lower_name(&self) -> String {
        self.name.to_ascii_lowercase()
    }
}
