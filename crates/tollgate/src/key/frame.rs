//! Frames: keys of several parts as one sequence of bytes. Each part is written as its kind, its
//! length in groups of seven bits, and its bytes.
//!
//! There are two kinds of frames. In an *external* frame, which callers and other programs see, all
//! parts are text or bytes. In a *compact* frame, which stores in this process hash and keep,
//! numbers and addresses are binary.

use super::buffer::Buffer;
use super::compact::{Compact, Kind};
use super::{Form, Key, KeyRef};
use crate::leb128;

/// A frame in compact form.
#[derive(Debug)]
pub(super) struct Frame {
    bytes: Buffer,
    /// Whether the external frame may differ: a part is binary, or is a frame that may contain such
    /// a part.
    differs: bool,
}

impl Frame {
    pub(super) fn new() -> Self {
        Frame { bytes: Buffer::new(), differs: false }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.bytes()
    }

    #[inline(always)]
    pub(super) fn part(&mut self, key: &(impl Key + ?Sized)) {
        key.with_key(|part| part.with_compact(|part| self.push(part)));
    }

    #[inline(always)]
    fn push(&mut self, part: Compact<'_>) {
        match part {
            Compact::Word(kind, word) => {
                self.differs = true;
                push(&mut self.bytes, kind, &word.to_le_bytes());
            }
            Compact::Address(address) => {
                self.differs = true;
                push(&mut self.bytes, Kind::V6, &address.octets());
            }
            Compact::Bytes(kind, bytes) => {
                self.differs |= !matches!(kind, Kind::Plain | Kind::Digest);
                push(&mut self.bytes, kind, bytes);
            }
        }
    }

    /// Returns the external frame if it may differ from the compact one.
    pub(super) fn text(&self) -> Option<Buffer> {
        self.differs.then(|| text_of(self.bytes()))
    }
}

#[inline(always)]
fn push(out: &mut Buffer, kind: Kind, bytes: &[u8]) {
    let len = bytes.len();
    if len < 0x80 {
        out.extend(&[kind as u8, len as u8]);
    } else {
        out.extend(&[kind as u8]);
        leb128::put(len as u64, |byte| out.extend(&[byte]));
    }
    out.extend(bytes);
}

/// Appends a part to an external frame.
pub(super) fn push_text(out: &mut Buffer, part: KeyRef<'_>) {
    push(out, Kind::of_form(part.form()), part.bytes());
}

/// Converts a compact frame to the external frame.
#[cold]
pub(super) fn text_of(compact: &[u8]) -> Buffer {
    let (mut out, mut rest) = (Buffer::new(), compact);
    while let Some((kind, bytes, tail)) = split_part(rest) {
        rest = tail;
        // All kinds in a compact frame are known, because this module has created the frame.
        let Some(kind) = Kind::of_byte(kind) else { break };
        let text = kind.text(bytes);
        push(&mut out, Kind::of_form(kind.form()), text.as_ref().map_or(bytes, Buffer::bytes));
    }
    out
}

/// Converts an external frame to the compact frame. `None` if the bytes are not a frame.
pub(super) fn compact_of(parts: &[u8]) -> Option<Frame> {
    let (mut frame, mut rest) = (Frame::new(), parts);
    while !rest.is_empty() {
        let (form, bytes, tail) = split_part(rest)?;
        rest = tail;
        KeyRef::from_parts(Form::from_byte(form)?, bytes).with_compact(|part| frame.push(part));
    }
    Some(frame)
}

/// Returns the kind and the bytes of the first part, and the rest of the frame.
pub(super) fn split_part(framed: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (kind, mut rest) = framed.split_first()?;
    let len = usize::try_from(leb128::take(&mut rest)?).ok()?;
    let (bytes, tail) = rest.split_at_checked(len)?;
    Some((*kind, bytes, tail))
}
