//! Commands about the connection and the server: `HELLO`, `AUTH`, `CLIENT`, `COMMAND`, `INFO`.

use super::commands::{self, CommandSpec};
use super::parser::Command;
use super::reply::{Protocol, Reply};
use super::session::Session;

/// Clients choose the commands that they use by this version.
const REDIS_VERSION: &str = "7.0.0";

const SYNTAX: &str = "syntax error";

pub(super) fn ping(_: &mut Session, command: Command<'_, '_>, reply: &mut Reply<'_>) {
    match command.argument(1) {
        None => reply.simple("PONG"),
        Some(message) if command.len() == 2 => reply.bulk(message),
        Some(_) => reply.error("ERR", "wrong number of arguments for 'ping' command"),
    }
}

pub(super) fn echo(_: &mut Session, command: Command<'_, '_>, reply: &mut Reply<'_>) {
    reply.bulk(command.argument(1).unwrap_or_default());
}

pub(super) fn config(_: &mut Session, command: Command<'_, '_>, reply: &mut Reply<'_>) {
    match &command.argument(1).unwrap_or_default().to_ascii_uppercase()[..] {
        b"GET" => reply.map(0),
        other => subcommand("CONFIG", other, reply),
    }
}

pub(super) fn info(session: &mut Session, _: Command<'_, '_>, reply: &mut Reply<'_>) {
    reply.verbatim(&server_info(session));
}

pub(super) fn select(_: &mut Session, command: Command<'_, '_>, reply: &mut Reply<'_>) {
    match command.argument(1) {
        Some(b"0") => reply.ok(),
        _ => reply.error("ERR", "DB index is out of range"),
    }
}

/// Commands that change nothing here: there are no replicas, and no key can be read.
pub(super) fn ok(_: &mut Session, _: Command<'_, '_>, reply: &mut Reply<'_>) {
    reply.ok();
}

pub(super) fn quit(session: &mut Session, _: Command<'_, '_>, reply: &mut Reply<'_>) {
    session.closing = true;
    reply.ok();
}

pub(super) fn reset(session: &mut Session, _: Command<'_, '_>, reply: &mut Reply<'_>) {
    session.protocol = Protocol::Two;
    session.name = Box::default();
    session.transaction = None;
    session.admitted = session.auth.is_open();
    reply.protocol = Protocol::Two;
    reply.simple("RESET");
}

/// `HELLO [version [AUTH user secret] [SETNAME name]]`: all options take effect, or none.
pub(super) fn hello(session: &mut Session, command: Command<'_, '_>, reply: &mut Reply<'_>) {
    let mut protocol = session.protocol;
    match command.argument(1) {
        None => {}
        Some(b"2") => protocol = Protocol::Two,
        Some(b"3") => protocol = Protocol::Three,
        Some(_) => return reply.error("NOPROTO", "unsupported protocol version"),
    }
    let (mut admitted, mut name, mut at) = (session.admitted, None, 2);
    while let Some(option) = command.argument(at) {
        let (first, second) = (command.argument(at + 1), command.argument(at + 2));
        match (&option.to_ascii_uppercase()[..], first, second) {
            (b"AUTH", Some(user), Some(secret)) => {
                admitted = session.auth.admits(user, secret);
                if !admitted {
                    return wrong_password(reply);
                }
                at += 3;
            }
            (b"SETNAME", Some(first), _) => {
                if !is_name(first) {
                    return reply.error("ERR", NAME);
                }
                name = Some(first);
                at += 2;
            }
            _ => {
                let option = option[..option.len().min(32)].escape_ascii();
                return reply.error("ERR", format!("Syntax error in HELLO option '{option}'"));
            }
        }
    }
    if !admitted {
        let message = "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";
        return reply.error("NOAUTH", message);
    }
    (session.admitted, session.protocol) = (admitted, protocol);
    if let Some(name) = name {
        session.name = name.into();
    }
    reply.protocol = protocol;
    reply.map(7);
    let pair = |reply: &mut Reply<'_>, name: &str, value: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    };
    pair(reply, "server", "tollgate");
    pair(reply, "version", env!("CARGO_PKG_VERSION"));
    reply.bulk(b"proto");
    reply.integer(protocol.number());
    reply.bulk(b"id");
    reply.count(session.id);
    pair(reply, "mode", "standalone");
    pair(reply, "role", "master");
    reply.bulk(b"modules");
    reply.array(0);
}

/// `AUTH [user] secret`.
pub(super) fn auth(session: &mut Session, command: Command<'_, '_>, reply: &mut Reply<'_>) {
    let (user, secret) = match (command.len(), command.argument(1), command.argument(2)) {
        (2, Some(secret), _) => (&b"default"[..], secret),
        (3, Some(user), Some(secret)) => (user, secret),
        _ => return reply.error("ERR", SYNTAX),
    };
    if !session.auth.admits(user, secret) {
        return wrong_password(reply);
    }
    session.admitted = true;
    reply.ok();
}

fn wrong_password(reply: &mut Reply<'_>) {
    reply.error("WRONGPASS", "invalid username-password pair or user is disabled.");
}

const NAME: &str = "Client names cannot contain spaces, newlines or special characters.";

fn is_name(name: &[u8]) -> bool {
    name.len() <= 256 && name.iter().all(u8::is_ascii_graphic)
}

pub(super) fn client(session: &mut Session, command: Command<'_, '_>, reply: &mut Reply<'_>) {
    let argument = |index| command.argument(index).unwrap_or_default();
    let is = |index: usize, word: &[u8]| argument(index).eq_ignore_ascii_case(word);
    match (&argument(1).to_ascii_uppercase()[..], command.len()) {
        (b"ID", 2) => reply.count(session.id),
        (b"GETNAME", 2) if session.name.is_empty() => reply.null(),
        (b"GETNAME", 2) => reply.bulk(&session.name),
        (b"SETNAME", 3) if is_name(argument(2)) => {
            session.name = argument(2).into();
            reply.ok();
        }
        (b"SETNAME", 3) => reply.error("ERR", NAME),
        (b"SETINFO", 4) if is(2, b"LIB-NAME") || is(2, b"LIB-VER") => reply.ok(),
        (b"SETINFO", 4) => reply.error("ERR", "Unrecognized option for CLIENT SETINFO"),
        (b"INFO", 2) | (b"LIST", _) => reply.verbatim(&about(session)),
        (b"NO-EVICT" | b"NO-TOUCH", 3) if is(2, b"ON") || is(2, b"OFF") => reply.ok(),
        (b"TRACKING", _) if is(2, b"OFF") => reply.ok(),
        (b"TRACKING", _) => reply.error("ERR", "tracking is not supported"),
        (b"REPLY", 3) if is(2, b"ON") => reply.ok(),
        (other, _) => subcommand("CLIENT", other, reply),
    }
}

fn about(session: &Session) -> String {
    format!(
        "id={} addr={} name={} db=0 resp={}\n",
        session.id,
        session.peer,
        session.name.escape_ascii(),
        session.protocol.number()
    )
}

fn subcommand(command: &str, name: &[u8], reply: &mut Reply<'_>) {
    let name = name[..name.len().min(32)].escape_ascii();
    let message = format!(
        "unknown subcommand or wrong number of arguments for '{name}'. Try {command} HELP."
    );
    reply.error("ERR", message);
}

pub(super) fn command(_: &mut Session, command: Command<'_, '_>, reply: &mut Reply<'_>) {
    let named = || command.iter().skip(2).map(commands::find);
    match &command.argument(1).unwrap_or_default().to_ascii_uppercase()[..] {
        b"" => {
            reply.array(commands::ALL.len());
            commands::ALL.iter().for_each(|spec| describe(spec, reply));
        }
        b"COUNT" => reply.count(commands::ALL.len() as u64),
        b"LIST" => {
            reply.array(commands::ALL.len());
            commands::ALL.iter().for_each(|spec| reply.bulk(spec.lower_name().as_bytes()));
        }
        b"INFO" if command.len() > 2 => {
            reply.array(command.len() - 2);
            for spec in named() {
                match spec {
                    Some(spec) => describe(spec, reply),
                    None => reply.null(),
                }
            }
        }
        b"INFO" => {
            reply.array(commands::ALL.len());
            commands::ALL.iter().for_each(|spec| describe(spec, reply));
        }
        b"DOCS" => {
            let wanted: Vec<&CommandSpec> = match command.len() {
                2 => commands::ALL.iter().collect(),
                _ => named().flatten().collect(),
            };
            reply.map(wanted.len());
            for spec in wanted {
                reply.bulk(spec.lower_name().as_bytes());
                reply.map(2);
                reply.bulk(b"summary");
                reply.bulk(spec.summary.as_bytes());
                reply.bulk(b"group");
                reply.bulk(if spec.key > 0 { b"module" } else { b"connection" });
            }
        }
        other => subcommand("COMMAND", other, reply),
    }
}

/// Describes a command like Redis 6: name, arity, flags, first key, last key, step.
fn describe(spec: &CommandSpec, reply: &mut Reply<'_>) {
    reply.array(6);
    reply.bulk(spec.lower_name().as_bytes());
    reply.integer(spec.arity);
    reply.array(1);
    reply.simple(if spec.key > 0 { "write" } else { "fast" });
    reply.count(spec.key as u64);
    reply.count(spec.key as u64);
    reply.count(u64::from(spec.key > 0));
}

fn server_info(session: &Session) -> String {
    format!(
        "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\ntollgate_version:{}\r\nprocess_id:{}\r\n\
         \r\n# Clients\r\nclient_id:{}\r\n\r\n# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        session.id
    )
}
