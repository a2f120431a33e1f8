//! Bytes that are assembled on the stack. Long ones are moved to the heap.

use std::fmt::{self, Write as _};

pub(super) struct Buffer {
    inline: [u8; Buffer::INLINE],
    len: usize,
    spilled: Vec<u8>,
}

impl Buffer {
    const INLINE: usize = 128;

    pub(super) fn new() -> Self {
        Buffer { inline: [0; Buffer::INLINE], len: 0, spilled: Vec::new() }
    }

    #[inline(always)]
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match self.inline.get_mut(self.len..end) {
            Some(room) if self.spilled.is_empty() => {
                room.copy_from_slice(bytes);
                self.len = end;
            }
            _ => self.spill(bytes),
        }
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline[..self.len]);
        }
        self.spilled.extend_from_slice(bytes);
    }

    /// Appends a text.
    pub(super) fn write(&mut self, value: impl fmt::Display) {
        let written = write!(self, "{value}");
        debug_assert!(written.is_ok(), "a buffer grows as needed");
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        if self.spilled.is_empty() { &self.inline[..self.len] } else { &self.spilled }
    }
}

impl fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.extend(text.as_bytes());
        Ok(())
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().fmt(f)
    }
}
