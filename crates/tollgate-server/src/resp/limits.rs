//! What a client may send, and how patient the server is.

use std::time::Duration;

/// BoundRules on what one client can make the server hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one argument.
    pub argument: usize,
    /// Arguments of one command, its name included.
    pub arguments: usize,
    /// Bytes of a command on one line.
    pub line: usize,
    /// Bytes of one command.
    pub command: usize,
}

impl Limits {
    /// Of those who may ask: a key of 64 KiB, a batch of a thousand hits.
    pub const ADMITTED: Limits =
        Limits { argument: 64 << 10, arguments: 4096, line: 64 << 10, command: 1 << 20 };

    /// Of those who have not yet shown that they may: enough for `HELLO` and `AUTH`.
    pub const STRANGER: Limits =
        Limits { argument: 4 << 10, arguments: 16, line: 4 << 10, command: 16 << 10 };
}

/// Bytes of answers that a client has not read yet. At the bound no more of its commands are read.
pub(super) const UNREAD: usize = 4 << 20;

/// How long a command may take from its first byte to its last.
pub(super) const COMMAND_TIME: Duration = Duration::from_secs(10);

/// How long a client may leave answers unread.
pub(super) const UNREAD_TIME: Duration = Duration::from_secs(30);

/// How long bytes that are on their way are waited for when the server stops.
pub(super) const LAST_CALL: Duration = Duration::from_millis(50);
