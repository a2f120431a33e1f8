//! Bytes to commands: arrays of bulk strings, or a line as people type it.
//!
//! The parser copies nothing and keeps its place, so it reads each byte
//! of a command that arrives in pieces once.

use std::fmt;

use super::input_bounds::InputBounds;
use super::line;

/// The start and the end of an argument.
type ByteRange = (u32, u32);

/// Reads one command after the other. Each call gets all bytes from the start of the current
/// command.
#[derive(Debug, Default)]
pub struct Parser {
    stage: Stage,
    /// The next byte to read.
    at: usize,
    places: Vec<ByteRange>,
    /// The arguments of an inline command without their quotes. `places` are ranges of these bytes
    /// unless this is empty.
    unquoted: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Start,
    Line,
    /// This many arguments are still to come.
    Bulks(usize),
    /// This many arguments are still to come, and the next one has this many bytes.
    Bulk(usize, usize),
    Complete,
}

/// A complete command.
#[derive(Clone, Copy, Debug)]
pub struct Command<'b, 'p> {
    bytes: &'b [u8],
    places: &'p [ByteRange],
}

/// The client does not speak Redis' protocol: it gets an error and the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolError(Fault);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Count,
    Length,
    Dollar(u8),
    End,
    Line,
    Quotes,
    Size,
}

impl Parser {
    /// Continues with a command. `Some(n)`: the command is complete and takes the first `n` bytes.
    ///
    /// # Errors
    /// When this is no command, or a larger one than the limits allow.
    ///
    /// ```
    /// use tollgate_server::resp::{InputBounds, Parser};
    /// let mut parser = Parser::default();
    /// let bytes = b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\nPING\r\n";
    /// assert_eq!(parser.parse(bytes, &InputBounds::ADMITTED), Ok(Some(22)));
    /// assert_eq!(parser.command(bytes).iter().collect::<Vec<_>>(), [&b"ECHO"[..], b"hi"]);
    /// parser.next();
    /// assert_eq!(parser.parse(&bytes[22..], &InputBounds::ADMITTED), Ok(Some(6)));
    /// ```
    pub fn parse(
        &mut self,
        bytes: &[u8],
        limits: &InputBounds,
    ) -> Result<Option<usize>, ProtocolError> {
        loop {
            match self.stage {
                Stage::Start => match bytes.first() {
                    None => return Ok(None),
                    Some(b'*') => match header(bytes, 1).ok_or(Fault::Count)? {
                        None => return Ok(None),
                        Some((count, next)) => self.begin(count, next, limits)?,
                    },
                    Some(_) => self.stage = Stage::Line,
                },
                Stage::Line => return self.line(bytes, limits),
                Stage::Bulks(0) => self.stage = Stage::Complete,
                Stage::Bulks(left) => {
                    match bytes.get(self.at) {
                        None => return Ok(None),
                        Some(b'$') => {}
                        Some(other) => return Err(Fault::Dollar(*other).into()),
                    }
                    let Some((length, next)) = header(bytes, self.at + 1).ok_or(Fault::Length)?
                    else {
                        return Ok(None);
                    };
                    let length = usize::try_from(length).map_err(|_| Fault::Length)?;
                    if length > limits.argument {
                        return Err(Fault::Length.into());
                    }
                    if next + length > limits.command {
                        return Err(Fault::Size.into());
                    }
                    self.at = next;
                    self.stage = Stage::Bulk(left, length);
                }
                Stage::Bulk(left, length) => {
                    let end = self.at + length;
                    match bytes.get(end..end + 2) {
                        None => return Ok(None),
                        Some(b"\r\n") => {}
                        Some(_) => return Err(Fault::End.into()),
                    }
                    self.places.push(place(self.at, end));
                    self.at = end + 2;
                    self.stage = Stage::Bulks(left - 1);
                }
                Stage::Complete => return Ok(Some(self.at)),
            }
        }
    }

    /// A command without arguments, `*0`, is none, and one with fewer neither, as in Redis.
    fn begin(
        &mut self,
        count: i64,
        next: usize,
        limits: &InputBounds,
    ) -> Result<(), ProtocolError> {
        let count = usize::try_from(count).unwrap_or(0);
        if count > limits.arguments {
            return Err(Fault::Count.into());
        }
        self.at = next;
        self.stage = Stage::Bulks(count);
        Ok(())
    }

    fn line(&mut self, bytes: &[u8], limits: &InputBounds) -> Result<Option<usize>, ProtocolError> {
        let end = bytes[self.at..].iter().position(|byte| *byte == b'\n').map(|n| self.at + n);
        if end.unwrap_or(bytes.len()) > limits.line {
            return Err(Fault::Line.into());
        }
        let Some(end) = end else {
            self.at = bytes.len();
            return Ok(None);
        };
        let text = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        let words = line::words(text, &mut self.unquoted).ok_or(Fault::Quotes)?;
        if words.len() > limits.arguments {
            return Err(Fault::Count.into());
        }
        self.places.extend(words.into_iter().map(|(from, to)| place(from, to)));
        self.at = end + 1;
        self.stage = Stage::Complete;
        Ok(Some(self.at))
    }

    /// The complete command, in the bytes from which it was read. It may have no arguments, not
    /// even a name: then there is nothing to do.
    #[must_use]
    pub fn command<'a>(&'a self, bytes: &'a [u8]) -> Command<'a, 'a> {
        let bytes = if self.unquoted.is_empty() { bytes } else { &self.unquoted };
        Command { bytes, places: &self.places }
    }

    /// Ends the current command: the next bytes are those of the next command.
    pub fn next(&mut self) {
        (self.stage, self.at) = (Stage::Start, 0);
        self.places.clear();
        self.unquoted.clear();
    }

    /// Frees memory that only large commands need.
    pub(super) fn relax(&mut self) {
        self.places.shrink_to(16);
        self.unquoted = Vec::new();
    }
}

/// A number up to the end of its line, and where the next line begins; `Some(None)` if the line has
/// not ended, `None` if the line is not a number.
#[inline]
#[expect(clippy::option_option, reason = "three results: no number, incomplete, a number")]
fn header(bytes: &[u8], from: usize) -> Option<Option<(i64, usize)>> {
    let negative = bytes.get(from) == Some(&b'-');
    let first = from + usize::from(negative);
    let (mut at, mut number) = (first, 0_i64);
    loop {
        match bytes.get(at) {
            None => return Some(None),
            Some(digit @ b'0'..=b'9') => {
                number = number.checked_mul(10)?.checked_add(i64::from(digit - b'0'))?;
            }
            Some(b'\r') if at > first => break,
            Some(_) => return None,
        }
        at += 1;
    }
    match bytes.get(at + 1) {
        None => Some(None),
        Some(b'\n') => Some(Some((if negative { -number } else { number }, at + 2))),
        Some(_) => None,
    }
}

/// Commands are shorter than 4 GiB by far.
fn place(from: usize, to: usize) -> ByteRange {
    (u32::try_from(from).unwrap_or(u32::MAX), u32::try_from(to).unwrap_or(u32::MAX))
}

impl<'b> Command<'b, '_> {
    /// How many arguments, the name included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether the command has no arguments, not even a name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// An argument; number 0 is the name.
    #[must_use]
    #[inline]
    pub fn argument(&self, index: usize) -> Option<&'b [u8]> {
        let (from, to) = *self.places.get(index)?;
        self.bytes.get(from as usize..to as usize)
    }

    /// All arguments.
    pub fn iter(&self) -> impl Iterator<Item = &'b [u8]> {
        self.places.iter().filter_map(|(from, to)| self.bytes.get(*from as usize..*to as usize))
    }
}

impl From<Fault> for ProtocolError {
    fn from(fault: Fault) -> Self {
        ProtocolError(fault)
    }
}

/// Writes the error with the texts of Redis, which clients may know.
impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self.0 {
            Fault::Count => f.write_str("invalid multibulk length"),
            Fault::Length => f.write_str("invalid bulk length"),
            Fault::Dollar(other) => write!(f, "expected '$', got '{}'", other.escape_ascii()),
            Fault::End => f.write_str("expected CRLF after a bulk"),
            Fault::Line => f.write_str("too big inline request"),
            Fault::Quotes => f.write_str("unbalanced quotes in request"),
            Fault::Size => f.write_str("too big request"),
        }
    }
}

impl std::error::Error for ProtocolError {}
