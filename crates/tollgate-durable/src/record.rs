//! The record of a key in the file: a state, and the units that may have been charged since without
//! being written.
//!
//! A record covers a key from the time at which it was made until [`SPEAKS_FOR`] later. After a
//! crash it is unknown what of its reserve was charged in that span and when. Charging all of it at
//! the end of the span, or now if that is earlier, leaves no more room at any later time than what
//! really happened:
//!
//! - Buckets and GCRA: a later charge leaks later, and a state that became fresh before it only
//!   lost room.
//! - Windows: the charge is counted in the window that is open then; what was charged in an earlier
//!   one is no longer counted.
//! - Moving window: one entry, not older than any that was made.
//!
//! The elastic window is the exception: every attempt pushes its end, and one later charge would
//! miss that the window never closed in between. It gets no reserve.

use std::time::Duration;

use tollgate::Timestamp;
use tollgate::algorithm::{AnyMachine, AnyState, Op};

/// How long a record covers its key. A reserve that is not used within that time is lost.
pub(crate) const SPEAKS_FOR: Duration = Duration::from_secs(600);

/// The last known state of a key and what may have been charged since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// When the key was last used before the record was made.
    pub(crate) at: Timestamp,
    /// Units that may be charged from then on.
    pub(crate) reserve: u64,
    pub(crate) state: AnyState,
}

const HEAD: usize = 24;
/// Set in the word of the time if the record ends with a checksum. Timestamps have 62 bits. Records
/// of files of format 1 have none.
const HAS_CHECKSUM: u64 = 1 << 63;

impl Record {
    /// The state after a crash, at `now`; `None` if it is fresh. A clock that went back meanwhile
    /// counts as standing at the record's time.
    pub(crate) fn restored(self, machine: &AnyMachine, now: Timestamp) -> Option<AnyState> {
        let state = self.charged(machine, now);
        state.filter(|state| machine.fresh_at(Some(state)).is_some_and(|at| at > now))
    }

    /// When the record becomes meaningless.
    pub(crate) fn expires(&self, machine: &AnyMachine) -> Timestamp {
        let state = self.clone().charged(machine, Timestamp::MAX);
        machine.fresh_at(state.as_ref()).unwrap_or(self.at)
    }

    fn charged(self, machine: &AnyMachine, now: Timestamp) -> Option<AnyState> {
        let mut state = Some(self.state);
        if self.reserve > 0 {
            let now = now.clamp(self.at, self.at + SPEAKS_FOR);
            let _ = machine.apply(&mut state, now, Op::Charge(self.reserve));
        }
        state
    }

    /// Encodes three words, the lowest byte first (when it expires, its time, its reserve), then
    /// the state, and a checksum of the key's name and all of that.
    pub(crate) fn to_bytes(&self, machine: &AnyMachine, name: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + 28);
        let at = self.at.as_micros() | HAS_CHECKSUM;
        for word in [self.expires(machine).as_micros(), at, self.reserve] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.state.to_bytes(&mut bytes);
        let sum = checksum(name, &bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes the bytes of [`to_bytes`](Record::to_bytes); `None` for other bytes.
    pub(crate) fn from_bytes(name: &[u8], bytes: &[u8]) -> Option<Record> {
        let bytes = verified(name, bytes)?;
        let at = Timestamp::from_micros(word(bytes, 1)? & !HAS_CHECKSUM);
        let state = AnyState::from_bytes(bytes.get(HEAD..)?)?;
        Some(Record { at, reserve: word(bytes, 2)?, state })
    }

    /// The same, but only with a valid checksum.
    pub(crate) fn from_checked_bytes(name: &[u8], bytes: &[u8]) -> Option<Record> {
        let has_checksum = word(bytes, 1)? & HAS_CHECKSUM != 0;
        has_checksum.then(|| Record::from_bytes(name, bytes)).flatten()
    }

    /// When the record in these bytes expires; `None` if it is damaged.
    pub(crate) fn expiry_in(name: &[u8], bytes: &[u8]) -> Option<Timestamp> {
        Some(Timestamp::from_micros(word(verified(name, bytes)?, 0)?))
    }
}

/// The record without its checksum, if the checksum is valid.
fn verified<'a>(name: &[u8], bytes: &'a [u8]) -> Option<&'a [u8]> {
    if word(bytes, 1)? & HAS_CHECKSUM == 0 {
        return Some(bytes);
    }
    let (bytes, sum) = bytes.split_last_chunk()?;
    (checksum(name, bytes) == u32::from_le_bytes(*sum)).then_some(bytes)
}

/// FNV-1a of 64 bits, folded.
fn checksum(name: &[u8], bytes: &[u8]) -> u32 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let sum = name.iter().chain(bytes).fold(0xcbf2_9ce4_8422_2325, step);
    (sum >> 32) as u32 ^ sum as u32
}

fn word(bytes: &[u8], index: usize) -> Option<u64> {
    let bytes = bytes.get(index * 8..index * 8 + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use tollgate::Limit;

    use super::*;

    fn record() -> (AnyMachine, Record) {
        let machine = AnyMachine::new(&Limit::per_hour(100).build().unwrap());
        let mut state = None;
        let at = Timestamp::from_micros(1_700_000_000_000_000);
        let _ = machine.apply(&mut state, at, Op::Charge(7));
        (machine, Record { at, reserve: 3, state: state.unwrap() })
    }

    #[test]
    fn each_flipped_bit_is_noticed() {
        let (machine, record) = record();
        let bytes = record.to_bytes(&machine, b"name");
        assert_eq!(Record::from_bytes(b"name", &bytes), Some(record));
        assert_eq!(Record::from_bytes(b"mane", &bytes), None);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::from_bytes(b"name", &flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn records_without_a_checksum_are_read() {
        let (machine, record) = record();
        let mut bytes = record.to_bytes(&machine, b"name");
        bytes.truncate(bytes.len() - 4);
        bytes[15] &= 0x7f;
        assert_eq!(Record::from_bytes(b"name", &bytes), Some(record.clone()));
        assert_eq!(Record::expiry_in(b"name", &bytes), Some(record.expires(&machine)));
    }
}
