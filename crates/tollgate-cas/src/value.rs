//! What stands in a cell: the version of this format, when it was written (eight bytes of
//! microseconds, the highest first), the state.

use tollgate::algorithm::{AnyMachine, AnyState};
use tollgate::{Error, Timestamp};

use crate::cells::Name;

const FORMAT: u8 = 1;

/// The value of a state that is written at this time.
pub(crate) fn write(written: Timestamp, state: &AnyState) -> Vec<u8> {
    let mut value = Vec::with_capacity(32);
    value.push(FORMAT);
    value.extend_from_slice(&written.as_micros().to_be_bytes());
    state.to_bytes(&mut value);
    value
}

/// When a value was written, and its state, which must be one of this machine.
///
/// # Errors
/// When it is something else: then it is no decision.
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
                "key {name}: its value of {} bytes, {}, is no state of its limit; only tollgate may write there",
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
    fn a_value_is_read_as_it_was_written_and_nothing_else_is() {
        let machine = AnyMachine::new(&"5/minute".parse().unwrap());
        let (now, mut state) = (Timestamp::from_micros(1_790_000_000_000_000), None);
        let _ = machine.apply(&mut state, now, Op::Hit(2));
        let state = state.unwrap();
        let (name, value) = (Name::new(*b"a key", 0), write(now, &state));
        assert_eq!(read(&name, &machine, &value), Ok((now, state)));
        for wrong in [&b""[..], b"7", &value[..5], &value[..value.len() - 1], &value[1..]] {
            let error = read(&name, &machine, wrong).unwrap_err();
            assert!(error.to_string().contains("key a key: its value"), "{error}");
        }
        let other = AnyMachine::new(&"5/minute fixed-window".parse().unwrap());
        assert!(read(&name, &other, &value).is_err(), "a state of another algorithm");
        let newer = [&[FORMAT + 1], &value[1..]].concat();
        assert!(read(&name, &machine, &newer).is_err(), "another format");
    }
}
