//! Commands between `MULTI` and `EXEC`.
//!
//! `EXEC` runs them in order, as if they had come one after the other: each is decided on by
//! itself, and other clients may hit the same keys in between. A command that cannot be read
//! (unknown, wrong number of arguments) aborts the whole transaction before any of it is charged.

use super::limits::Limits;
use super::parser::{Command, Parser};

/// The most bytes that the commands of a transaction may take.
const ROOM: usize = 1 << 20;

/// Commands that wait for `EXEC`, in the form in which clients send them.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    bytes: Vec<u8>,
    count: usize,
    /// A command was rejected: `EXEC` will run nothing.
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

    pub(super) fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// How many commands there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The commands from a place on, as bytes.
    pub(super) fn from(&self, at: usize) -> &[u8] {
        &self.bytes[at.min(self.bytes.len())..]
    }

    /// The length of the command that these bytes begin with; `None` at the end.
    pub(super) fn next(parser: &mut Parser, bytes: &[u8]) -> Option<usize> {
        parser.parse(bytes, &Limits::ADMITTED).ok().flatten()
    }
}
