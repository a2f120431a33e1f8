//! Bounds on the bytes of clients and on waiting for them.

use std::time::Duration;

/// The most that one client can make the server hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputBounds {
    /// The most bytes of one argument.
    pub argument: usize,
    /// The most arguments of one command, its name included.
    pub arguments: usize,
    /// The most bytes of a command on one line.
    pub line: usize,
    /// The most bytes of one command.
    pub command: usize,
}

impl InputBounds {
    /// For admitted clients: a key of 64 KiB, a batch of a thousand hits.
    pub const ADMITTED: InputBounds =
        InputBounds { argument: 64 << 10, arguments: 4096, line: 64 << 10, command: 1 << 20 };

    /// For clients that are not authenticated yet: enough for `HELLO` and `AUTH`.
    pub const STRANGER: InputBounds =
        InputBounds { argument: 4 << 10, arguments: 16, line: 4 << 10, command: 16 << 10 };
}

/// The most bytes of replies that a client has not read. At the limit no more of its commands are
/// read.
pub(super) const UNREAD: usize = 4 << 20;

/// How long a command may take from its first byte to its last.
pub(super) const COMMAND_TIME: Duration = Duration::from_secs(10);

/// How long a client may leave replies unread.
pub(super) const UNREAD_TIME: Duration = Duration::from_secs(30);

/// How long a stopping server waits for bytes that clients have already sent.
pub(super) const LAST_CALL: Duration = Duration::from_millis(50);
