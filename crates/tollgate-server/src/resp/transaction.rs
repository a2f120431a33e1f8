//! Commands between `MULTI` and `EXEC`.
//!
//! `EXEC` runs them in order, like commands without a transaction: each has its own decision, and
//! other clients may hit the same keys in between. A command that is not valid (unknown, wrong
//! number of arguments) aborts the whole transaction before any of it is charged.

use super::input_bounds::InputBounds;
use super::parser::{Command, Parser};
use super::reply::Reply;
use super::session::Session;

/// The most bytes of the commands of a transaction.
const ROOM: usize = 1 << 20;

/// Commands that wait for `EXEC`, as the bytes that clients send.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    bytes: Vec<u8>,
    count: usize,
    /// Whether a command was rejected: then `EXEC` runs nothing.
    aborted: bool,
}

impl Transaction {
    /// Keeps a command; false if there is no room for it.
    pub(super) fn queue(&mut self, command: Command<'_, '_>) -> bool {
        let length: usize = command.iter().map(|argument| argument.len() + 16).sum();
        if self.bytes.len() + length > ROOM {
            self.aborted = true;
            return false;
        }
        self.bytes.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
        for argument in command.iter() {
            self.bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            self.bytes.extend_from_slice(argument);
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.count += 1;
        true
    }

    /// Remembers that a command was rejected.
    pub(super) fn abort(&mut self) {
        self.aborted = true;
    }

    /// How many commands there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The commands from an offset on, as bytes.
    pub(super) fn from(&self, at: usize) -> &[u8] {
        &self.bytes[at.min(self.bytes.len())..]
    }

    /// The length of the command that these bytes begin with; `None` at the end.
    pub(super) fn next(parser: &mut Parser, bytes: &[u8]) -> Option<usize> {
        parser.parse(bytes, &InputBounds::ADMITTED).ok().flatten()
    }
}

pub(super) fn multi(session: &mut Session, _: Command<'_, '_>, reply: &mut Reply<'_>) {
    match session.transaction {
        Some(_) => reply.error("ERR", NESTED),
        None => {
            session.transaction = Some(Box::default());
            reply.ok();
        }
    }
}

/// The transaction to run; without one, or if it was aborted, the reply says so.
pub(super) fn exec(session: &mut Session, reply: &mut Reply<'_>) -> Option<Box<Transaction>> {
    match session.transaction.take() {
        Some(transaction) if !transaction.aborted => return Some(transaction),
        Some(_) => {
            reply.error("EXECABORT", "Transaction discarded because of previous errors.");
        }
        None => reply.error("ERR", "EXEC without MULTI"),
    }
    None
}

pub(super) fn discard(session: &mut Session, _: Command<'_, '_>, reply: &mut Reply<'_>) {
    match session.transaction.take() {
        Some(_) => reply.ok(),
        None => reply.error("ERR", "DISCARD without MULTI"),
    }
}

/// Watches nothing: no key can be read here.
pub(super) fn watch(session: &mut Session, _: Command<'_, '_>, reply: &mut Reply<'_>) {
    match session.transaction {
        Some(_) => reply.error("ERR", NESTED),
        None => reply.ok(),
    }
}

const NESTED: &str = "MULTI and WATCH are not allowed inside MULTI";
