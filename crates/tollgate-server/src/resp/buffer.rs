//! Received bytes that are not parsed yet, and replies that are not sent yet. An idle connection
//! holds no buffer: active connections share them.

use std::cell::RefCell;

/// Bytes read at a time.
const SIZE: usize = 16 << 10;

/// How many spare buffers a thread keeps.
const SPARE: usize = 64;

thread_local! {
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// The whole length may be written to.
    bytes: Vec<u8>,
    from: usize,
    to: usize,
}

impl Buffer {
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// The room to read into: at least half the size of a read.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            let spare = SPARES.with_borrow_mut(Vec::pop);
            self.bytes = spare.unwrap_or_else(|| vec![0; SIZE]);
        }
        if self.bytes.len() - self.to < SIZE / 2 {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
            if self.bytes.len() - self.to < SIZE / 2 {
                // A command larger than a buffer; the limits bound it.
                self.bytes.resize(2 * self.bytes.len(), 0);
            }
        }
        &mut self.bytes[self.to..]
    }

    /// Notes that this many bytes were read into the room.
    pub(super) fn fill(&mut self, count: usize) {
        self.to += count;
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.from += count;
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }

    /// Gives the buffer to other connections if it is empty.
    pub(super) fn relax(&mut self) {
        if !self.is_empty() || self.bytes.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.len() == SIZE {
            SPARES.with_borrow_mut(|spares| {
                if spares.len() < SPARE {
                    spares.push(bytes);
                }
            });
        }
    }
}

/// Replies that are not sent yet.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    written: usize,
}

impl Output {
    pub(super) fn unwritten(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    pub(super) fn wrote(&mut self, count: usize) {
        self.written += count;
        if self.is_empty() {
            self.bytes.clear();
            self.written = 0;
        }
    }

    /// Gives the buffer to other connections if it is empty.
    pub(super) fn relax(&mut self) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            let bytes = std::mem::take(&mut self.bytes);
            OUTPUTS.with_borrow_mut(|spares| {
                if spares.len() < SPARE && bytes.capacity() <= SIZE {
                    spares.push(bytes);
                }
            });
        }
    }

    /// Takes a buffer.
    pub(super) fn ready(&mut self) {
        if self.bytes.capacity() == 0 {
            self.bytes = OUTPUTS.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
    }
}

thread_local! {
    static OUTPUTS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}
