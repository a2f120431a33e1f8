//! The value of a cell: the version of this format (one byte), the time at which it was written
//! (microseconds, eight bytes, big-endian), the state.

use tollgate::algorithm::{AnyMachine, AnyState};
use tollgate::{Error, Timestamp};

use crate::cells::Name;

const FORMAT: u8 = 1;

/// Encodes a state that is written at this time.
pub(crate) fn write(written: Timestamp, state: &AnyState) -> Vec<u8> {
    let mut value = Vec::with_capacity(32);
    value.push(FORMAT);
    value.extend_from_slice(&written.as_micros().to_be_bytes());
    state.to_bytes(&mut value);
    value
}

/// Decodes a value: when it was written, and its state, which must be a state of this machine.
///
/// # Errors
/// When the value is anything else.
pub(crate) fn read(
    name: &Name,
    machine: &AnyMachine,
    value: &[u8],
) -> Result<(Timestamp, AnyState), Error> {
    let read = || {
        let (written, state) = value.strip_prefix(&[FORMAT])?.split_first_chunk()?;
        let state = AnyState::from_bytes(state)?;
        machine.fresh_at(Some(&state))?;
        Some((Timestamp::from_micros(u64::from_be_bytes(*written)), state))
    };
    read().ok_or_else(|| {
        let start = &value[..value.len().min(40)];
        Error::store(
            format!(
                "key {name}: the value ({} bytes: {}) is not a state of the limit; only tollgate may write this key",
                value.len(),
                start.escape_ascii()
            ),
            false,
        )
    })
}

#[cfg(test)]
mod tests {
    use tollgate::algorithm::Op;

    use super::*;

    #[test]
    fn only_a_value_written_for_this_algorithm_and_format_is_decoded() {
        let machine = AnyMachine::new(&"5/minute".parse().unwrap());
        let (now, mut state) = (Timestamp::from_micros(1_790_000_000_000_000), None);
        let _ = machine.apply(&mut state, now, Op::Hit(2));
        let state = state.unwrap();
        let (name, value) = (Name::new(*b"a key", 0), write(now, &state));
        assert_eq!(read(&name, &machine, &value), Ok((now, state)));
        for wrong in [&b""[..], b"7", &value[..5], &value[..value.len() - 1], &value[1..]] {
            let error = read(&name, &machine, wrong).unwrap_err();
            assert!(error.to_string().contains("key a key: the value"), "{error}");
        }
        let other = AnyMachine::new(&"5/minute fixed-window".parse().unwrap());
        assert!(read(&name, &other, &value).is_err(), "a state of another algorithm");
        let newer = [&[FORMAT + 1], &value[1..]].concat();
        assert!(read(&name, &machine, &newer).is_err(), "another format");
    }
}
