//! States as bytes, for stores that keep them elsewhere: a tag for the algorithm, followed by the
//! words in LEB128 (a variable-length encoding). The entries of a moving window are written as
//! differences, so that the numbers are small.

use super::{AnyState, Words, concurrent, moving_window};
use crate::leb128::{put, take};
use crate::time::Timestamp;

/// A state that can be written as bytes, without the tag.
pub(super) trait StateBytes: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(rest: &mut &[u8]) -> Option<Self>;
}

impl<const N: usize, S: Words<Words = [u64; N]>> StateBytes for S {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_words().iter().for_each(|word| put(*word, |byte| out.push(byte)));
    }

    fn take(rest: &mut &[u8]) -> Option<S> {
        let mut words = [0; N];
        for word in &mut words {
            *word = take(rest)?;
        }
        Some(S::from_words(words))
    }
}

impl StateBytes for moving_window::MovingWindowState {
    fn put(&self, out: &mut Vec<u8>) {
        let mut before = 0;
        for (at, units) in self.entries() {
            put(at.as_micros() - before, |byte| out.push(byte));
            put(units, |byte| out.push(byte));
            before = at.as_micros();
        }
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        let mut entries = Vec::new();
        let mut at: u64 = 0;
        while !rest.is_empty() {
            at = at.checked_add(take(rest)?)?;
            entries.push((Timestamp::from_micros(at), take(rest)?));
        }
        Some(Self::from_entries(entries))
    }
}

/// The fence, and then the holders by their deadlines: the id in 16 bytes, the units, and the time
/// from the deadline before. Holders without a deadline come last.
impl StateBytes for concurrent::ConcurrentState {
    fn put(&self, out: &mut Vec<u8>) {
        put(self.fence(), |byte| out.push(byte));
        let mut before = 0;
        for concurrent::Holder { id, units, deadline } in self.holders() {
            out.extend_from_slice(&id.to_be_bytes());
            put(units, |byte| out.push(byte));
            put(deadline.as_micros() - before, |byte| out.push(byte));
            before = deadline.as_micros();
        }
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        let fence = take(rest)?;
        let mut holders = Vec::new();
        let mut deadline: u64 = 0;
        while let Some((id, tail)) = rest.split_first_chunk() {
            *rest = tail;
            let id = u128::from_be_bytes(*id);
            let units = take(rest)?;
            deadline = deadline.checked_add(take(rest)?)?;
            let deadline = Timestamp::from_micros(deadline);
            holders.push(concurrent::Holder { id, units, deadline });
        }
        Some(Self::from_holders(fence, holders))
    }
}

impl AnyState {
    /// Appends the state to `out`. [`from_bytes`](AnyState::from_bytes) reads it.
    ///
    /// ```
    /// use tollgate::algorithm::{AnyMachine, Op, AnyState};
    /// use tollgate::{Limit, Timestamp};
    ///
    /// let mut state = None;
    /// AnyMachine::new(&Limit::per_second(2).build()?).apply(&mut state, Timestamp::EPOCH, Op::Charge(1));
    /// let mut bytes = Vec::new();
    /// state.as_ref().unwrap().to_bytes(&mut bytes);
    /// assert_eq!(AnyState::from_bytes(&bytes), state);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// Reads a state that [`to_bytes`](AnyState::to_bytes) has written. `None` for any other bytes.
    ///
    /// ```
    /// assert_eq!(tollgate::algorithm::AnyState::from_bytes(b"something else"), None);
    /// ```
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<AnyState> {
        let (tag, mut rest) = bytes.split_first()?;
        let rest = &mut rest;
        let state = AnyState::take(*tag, rest)?;
        rest.is_empty().then_some(state)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::{AnyMachine, Op};
    use crate::limit::{Algorithm, Limit};

    fn bytes_of(state: &AnyState) -> Vec<u8> {
        let mut bytes = Vec::new();
        state.to_bytes(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn every_state_is_read_back_unchanged(
            algorithm in proptest::sample::select(&Algorithm::PERIODIC[..]),
            quota in 1_u64..1_000,
            steps in proptest::collection::vec((0_u64..3_000_000, 0_u64..50), 1..40),
        ) {
            let limit = Limit::per_second(quota).algorithm(algorithm).build().unwrap();
            let machine = AnyMachine::new(&limit);
            let (mut now, mut state) = (1_790_000_000_000_000, None);
            for (span, units) in steps {
                now += span;
                let _ = machine.apply(&mut state, Timestamp::from_micros(now), Op::Charge(units));
                let Some(written) = &state else { continue };
                let read = AnyState::from_bytes(&bytes_of(written)).unwrap();
                let at = Timestamp::from_micros(now);
                let peek = |state: &AnyState| machine.apply(&mut Some(state.clone()), at, Op::Peek(7));
                let (read, written) = (peek(&read), peek(written));
                prop_assert_eq!(read.used(), written.used());
                prop_assert_eq!(read.retry_after(), written.retry_after());
                prop_assert_eq!(read.reset_after(), written.reset_after());
            }
        }

        #[test]
        fn bytes_that_are_accepted_are_read_back_unchanged(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(state) = AnyState::from_bytes(&bytes) {
                prop_assert_eq!(AnyState::from_bytes(&bytes_of(&state)), Some(state));
            }
        }
    }

    #[test]
    fn truncated_and_longer_bytes_are_rejected() {
        let gcra = AnyState::Gcra(Words::from_words([u64::MAX, 300]));
        let bytes = bytes_of(&gcra);
        assert_eq!(AnyState::from_bytes(&bytes), Some(gcra));
        for end in 0..bytes.len() {
            assert_eq!(AnyState::from_bytes(&bytes[..end]), None, "{end}");
        }
        assert_eq!(AnyState::from_bytes(&[&bytes[..], &[0]].concat()), None);
    }
}
