//! The text of a key in a hash tag of Redis, and the slot that it selects. The home of a hold is
//! computed from it on every store, so it is defined here.

use super::{Form, KeyRef};

/// The number of slots of a Redis cluster.
pub const SLOTS: u16 = 16384;

impl KeyRef<'_> {
    /// Returns the slot of a Redis cluster in which this key lies: the CRC16 of the text of its
    /// tag, else of the key.
    ///
    /// ```
    /// use tollgate::{Key, Tagged};
    /// let alice = Tagged("acme", "alice").with_key(|key| key.home());
    /// assert_eq!(alice, Tagged("acme", "bob").with_key(|key| key.home()));
    /// assert_eq!(alice, "acme".with_key(|key| key.home()));
    /// ```
    #[must_use]
    pub fn home(self) -> u16 {
        let mut text = Vec::with_capacity(64);
        self.write_hash_tag(&mut text);
        slot_of(&text)
    }

    /// Appends the text of the tag of a tagged key, else of the key, as it stands between the
    /// braces of a key in Redis. It is never empty, because Redis ignores an empty hash tag.
    ///
    /// ```
    /// let mut text = Vec::new();
    /// tollgate::KeyRef::plain(b"user:42").write_hash_tag(&mut text);
    /// assert_eq!(text, b"user:42");
    /// ```
    pub fn write_hash_tag(self, out: &mut Vec<u8>) {
        let tag = match self.form() {
            Form::Tagged => self.inner().next().filter(|_| self.inner().nth(1).is_some()),
            _ => None,
        };
        let before = out.len();
        tag.unwrap_or(self).write_escaped(out, false);
        if out.len() == before {
            out.push(b'%');
        }
    }

    /// Appends the key as printable ASCII. Two keys never have the same text. `escapes_colon` says
    /// whether `:` is escaped too.
    ///
    /// ```
    /// use tollgate::Key;
    /// let mut text = Vec::new();
    /// ("a b", 7).with_key(|key| key.write_escaped(&mut text, false));
    /// assert_eq!(text, b"(a%20b,7)");
    /// ```
    pub fn write_escaped(self, out: &mut Vec<u8>, escapes_colon: bool) {
        let between = match self.form() {
            Form::Plain => return escape(self.bytes(), out, escapes_colon),
            Form::Digest => {
                out.extend_from_slice(b"%#");
                return self.bytes().iter().for_each(|byte| hex(*byte, out));
            }
            Form::Tagged => b'|',
            Form::Tuple => b',',
        };
        // Only `None` has no parts.
        if self.inner().next().is_none() {
            out.push(b'%');
        }
        out.push(b'(');
        for (index, inner) in self.inner().enumerate() {
            if index > 0 {
                out.push(between);
            }
            inner.write_escaped(out, escapes_colon);
        }
        out.push(b')');
    }
}

/// Appends bytes as printable ASCII: blanks, `% { } ( ) , |` and bytes that are not printable are
/// written `%XX`.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>, escapes_colon: bool) {
    for byte in bytes {
        let plain = byte.is_ascii_graphic() && !b"%{}(),|".contains(byte);
        if plain && !(escapes_colon && *byte == b':') {
            out.push(*byte);
        } else {
            out.push(b'%');
            hex(*byte, out);
        }
    }
}

fn hex(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// Returns the slot of a hash tag of Redis: its CRC16 (XMODEM) modulo [`SLOTS`].
///
/// ```
/// // `CLUSTER KEYSLOT 123456789` of a server.
/// assert_eq!(tollgate::key::slot_of(b"123456789"), 12739);
/// ```
#[must_use]
pub fn slot_of(tag: &[u8]) -> u16 {
    const TABLE: [u16; 256] = crc16_table();
    let step = |crc: u16, byte: &u8| crc << 8 ^ TABLE[usize::from(crc.to_be_bytes()[0] ^ *byte)];
    tag.iter().fold(0, step) % SLOTS
}

/// The CRC16 of each byte.
const fn crc16_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}
