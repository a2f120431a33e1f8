//! Writes replies, in both versions of the protocol.

use std::fmt::Display;

/// The version of the protocol. A reply that the older one does not have becomes its nearest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    #[default]
    Two,
    Three,
}

impl Protocol {
    pub(super) fn number(self) -> i64 {
        match self {
            Protocol::Two => 2,
            Protocol::Three => 3,
        }
    }
}

/// Writes the reply to one command.
pub(super) struct Reply<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) protocol: Protocol,
    /// Set by an error.
    pub(super) failure: Option<Failure>,
}

/// Why a command failed, for statistics and traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The client is not authenticated.
    Unauthenticated,
    /// The command is not valid.
    Invalid,
    /// The store made no decision.
    Store,
}

impl<'a> Reply<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Reply<'a> {
        Reply { out, protocol, failure: None }
    }

    /// A status: a short text without line breaks.
    pub(super) fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(text.as_bytes());
        self.end();
    }

    pub(super) fn ok(&mut self) {
        self.simple("OK");
    }

    /// Writes an error. `code` is the word by which clients distinguish errors. A line break would
    /// end the message, so it becomes a blank.
    pub(super) fn error(&mut self, code: &str, message: impl Display) {
        self.failure = Some(match code {
            "NOAUTH" | "WRONGPASS" => Failure::Unauthenticated,
            "STORE" => Failure::Store,
            _ => Failure::Invalid,
        });
        let message = message.to_string().replace(['\r', '\n'], " ");
        self.out.push(b'-');
        self.out.extend_from_slice(code.as_bytes());
        self.out.push(b' ');
        self.out.extend_from_slice(message.as_bytes());
        self.end();
    }

    #[inline]
    pub(super) fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// A count; those beyond 2^63 have no integer reply and do not occur.
    #[inline]
    pub(super) fn count(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.length(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.end();
    }

    pub(super) fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Two => b"$-1\r\n",
            Protocol::Three => b"_\r\n",
        });
    }

    /// Announces that this many replies follow.
    #[inline]
    pub(super) fn array(&mut self, length: usize) {
        self.length(b'*', length);
    }

    /// Announces that this many pairs follow; in the older version an array of their parts.
    pub(super) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Two => self.length(b'*', 2 * pairs),
            Protocol::Three => self.length(b'%', pairs),
        }
    }

    /// A text with its line breaks; the newer version marks it as text.
    pub(super) fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Two => self.bulk(text.as_bytes()),
            Protocol::Three => {
                self.length(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.end();
            }
        }
    }

    fn length(&mut self, kind: u8, length: usize) {
        self.number(kind, i64::try_from(length).unwrap_or(i64::MAX));
    }

    #[inline]
    fn number(&mut self, kind: u8, number: i64) {
        // A sign, 19 digits and the rest.
        let mut text = [0; 23];
        let mut at = text.len() - 2;
        text[at..].copy_from_slice(b"\r\n");
        let mut rest = number.unsigned_abs();
        loop {
            at -= 1;
            text[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            at -= 1;
            text[at] = b'-';
        }
        at -= 1;
        text[at] = kind;
        self.out.extend_from_slice(&text[at..]);
    }

    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_are_written() {
        for number in [0, 1, -1, 9, 10, 12345, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            Reply::new(&mut out, Protocol::Two).integer(number);
            assert_eq!(out, format!(":{number}\r\n").into_bytes());
        }
    }

    #[test]
    fn an_error_is_one_line() {
        let mut out = Vec::new();
        Reply::new(&mut out, Protocol::Two).error("ERR", "a\r\nb");
        assert_eq!(out, b"-ERR a  b\r\n");
    }
}
