//! What the file holds of a key: a state, and the units that may have been charged since without being written.
//!
//! A record speaks for a key from the time at which it was made until [`SPEAKS_FOR`] later. After a crash nobody knows what of its reserve
//! was charged in that span and when; charging all of it at the end of the span, or now if that is earlier, leaves no more room at any
//! later time than what really happened:
//!
//! - Buckets and GCRA: a later charge leaks later, and what is fresh before it forgets less.
//! - Windows: the charge is counted in the window that is open then; what was charged in an earlier one is no longer counted.
//! - Moving window: one entry, not older than any that was made.
//!
//! The elastic window is the exception: every attempt pushes its end, so a charge at one later time would miss that it never closed in between.
//! It gets no reserve.

use std::time::Duration;

use tollgate::Timestamp;
use tollgate::algorithm::{AnyMachine, Op, State};

/// For how long a record speaks for its key. A reserve that was not used within that time is gone with it.
pub(crate) const SPEAKS_FOR: Duration = Duration::from_secs(600);

/// The last known state of a key and what may have been charged since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// When the key was last used before the record was made.
    pub(crate) at: Timestamp,
    /// Units that may be charged from then on.
    pub(crate) reserve: u64,
    pub(crate) state: State,
}

const HEAD: usize = 24;

impl Record {
    /// The state that a crash leaves, at `now`; `None` if that is fresh. A clock that went back meanwhile is taken to stand at the record's time.
    pub(crate) fn restored(self, machine: &AnyMachine, now: Timestamp) -> Option<State> {
        let state = self.charged(machine, now);
        state.filter(|state| machine.fresh_at(Some(state)).is_some_and(|at| at > now))
    }

    /// From when on the record says nothing.
    pub(crate) fn expires(&self, machine: &AnyMachine) -> Timestamp {
        let state = self.clone().charged(machine, Timestamp::MAX);
        machine.fresh_at(state.as_ref()).unwrap_or(self.at)
    }

    fn charged(self, machine: &AnyMachine, now: Timestamp) -> Option<State> {
        let mut state = Some(self.state);
        if self.reserve > 0 {
            let now = now.clamp(self.at, self.at + SPEAKS_FOR);
            let _ = machine.apply(&mut state, now, Op::Charge(self.reserve));
        }
        state
    }

    /// Three words, the lowest byte first (when it expires, its time, its reserve), then the state.
    pub(crate) fn to_bytes(&self, machine: &AnyMachine) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + 24);
        for word in [self.expires(machine).as_micros(), self.at.as_micros(), self.reserve] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.state.to_bytes(&mut bytes);
        bytes
    }

    /// What [`to_bytes`](Record::to_bytes) wrote; `None` if it was not that.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Record> {
        let at = Timestamp::from_micros(word(bytes, 1)?);
        let state = State::from_bytes(bytes.get(HEAD..)?)?;
        Some(Record { at, reserve: word(bytes, 2)?, state })
    }

    /// When the record in these bytes expires.
    pub(crate) fn expiry_in(bytes: &[u8]) -> Option<Timestamp> {
        Some(Timestamp::from_micros(word(bytes, 0)?))
    }
}

fn word(bytes: &[u8], index: usize) -> Option<u64> {
    let bytes = bytes.get(index * 8..index * 8 + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}
