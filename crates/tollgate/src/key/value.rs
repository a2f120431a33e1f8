//! Numbers and addresses as keys. The usual text of a number or an address is the same key.
//!
//! `42_u64` and `"42"` are one key on every store, because another program or a person at a
//! terminal can only send text. Stores on a network keep the text. Stores in this process hash,
//! compare and keep the number, so a hit need not create the text of a number. Instead a text that
//! may be a number is parsed. For nearly all other texts the first two bytes show that they are not
//! numbers or addresses.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use super::buffer::Buffer;

/// A number or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// An integer from 0 to 2^64 - 1.
    Number(u64),
    /// The absolute value of a negative integer, at least 1.
    Negative(u64),
    V4(u32),
    V6(Halves),
    SocketV4(u32, u16),
    /// An IPv6 address and a port, without a scope.
    SocketV6(Halves, u16),
}

/// The bits of an IPv6 address as two numbers. The compiler keeps two numbers in registers, but
/// copies 16 bytes through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Halves(pub(crate) u64, pub(crate) u64);

impl From<Ipv6Addr> for Halves {
    #[inline(always)]
    fn from(address: Ipv6Addr) -> Halves {
        let bits = address.to_bits();
        Halves((bits >> 64) as u64, bits as u64)
    }
}

impl Halves {
    pub(super) fn octets(self) -> [u8; 16] {
        Ipv6Addr::from(self).octets()
    }
}

impl From<Halves> for Ipv6Addr {
    fn from(Halves(high, low): Halves) -> Ipv6Addr {
        Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))
    }
}

impl Value {
    /// Returns the value whose usual text this is. `None` if there is no such value.
    #[inline(always)]
    pub(super) fn of_text(text: &[u8]) -> Option<Value> {
        let may_begin = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-' | b':' | b'[');
        let may_follow = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b':' | b'.');
        match *text {
            [digit @ b'0'..=b'9'] => Some(Value::Number(u64::from(digit - b'0'))),
            [first, second, ..] if may_begin(first) && may_follow(second) => read(text),
            _ => None,
        }
    }

    /// Returns the usual text of the value.
    #[cold]
    pub(super) fn text(self) -> Buffer {
        let mut text = Buffer::new();
        match self {
            Value::V4(bits) => write_v4(bits.into(), &mut text),
            value => text.write(value),
        }
        text
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Number(number) => number.fmt(f),
            Value::Negative(amount) => write!(f, "-{amount}"),
            Value::V4(bits) => Ipv4Addr::from(bits).fmt(f),
            Value::V6(address) => Ipv6Addr::from(address).fmt(f),
            Value::SocketV4(bits, port) => SocketAddrV4::new(bits.into(), port).fmt(f),
            Value::SocketV6(address, port) => SocketAddrV6::new(address.into(), port, 0, 0).fmt(f),
        }
    }
}

/// Writes an IPv4 address. Formatting it with `Display` takes ten times as long, and most requests
/// have such a key.
fn write_v4(address: Ipv4Addr, text: &mut Buffer) {
    for (index, octet) in address.octets().into_iter().enumerate() {
        let digits = [b'.', b'0' + octet / 100, b'0' + octet / 10 % 10, b'0' + octet % 10];
        let zeros = usize::from(octet < 100) + usize::from(octet < 10);
        text.extend(&digits[..usize::from(index > 0)]);
        text.extend(&digits[1 + zeros..]);
    }
}

#[inline(never)]
fn read(text: &[u8]) -> Option<Value> {
    match text {
        [b'-', digits @ ..] => number(digits).filter(|amount| *amount > 0).map(Value::Negative),
        [b'[', rest @ ..] => {
            let end = rest.iter().position(|byte| *byte == b']')?;
            let port = port(rest[end..].strip_prefix(b"]")?)?;
            Some(Value::SocketV6(v6(&rest[..end])?, port))
        }
        _ => {
            number(text).map(Value::Number).or_else(|| v4(text)).or_else(|| v6(text).map(Value::V6))
        }
    }
}

/// Reads a decimal number without a leading zero.
fn number(digits: &[u8]) -> Option<u64> {
    /// The number of digits of 2^64 - 1.
    const LONGEST: usize = 20;
    if digits.is_empty() || digits.len() > LONGEST || digits.len() > 1 && digits[0] == b'0' {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn port(text: &[u8]) -> Option<u16> {
    u16::try_from(number(text.strip_prefix(b":")?)?).ok()
}

/// Reads an IPv4 address, with or without a port.
fn v4(text: &[u8]) -> Option<Value> {
    let (mut octets, mut rest) = ([0; 4], text);
    for (index, octet) in octets.iter_mut().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix(b".")?;
        }
        let digits = rest.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
        *octet = u8::try_from(number(&rest[..digits])?).ok()?;
        rest = &rest[digits..];
    }
    let address = u32::from_be_bytes(octets);
    if rest.is_empty() {
        Some(Value::V4(address))
    } else {
        Some(Value::SocketV4(address, port(rest)?))
    }
}

/// Reads an IPv6 address if the text is exactly the one that `std` prints. An address has several
/// texts, but only that one is the same key.
fn v6(text: &[u8]) -> Option<Halves> {
    /// The largest number of digits in the first group, which is followed by a colon.
    const LONGEST: usize = 4;
    if !text.iter().take(LONGEST + 1).any(|byte| *byte == b':') {
        return None;
    }
    let address: Ipv6Addr = std::str::from_utf8(text).ok()?.parse().ok()?;
    let address = Halves::from(address);
    (Value::V6(address).text().bytes() == text).then_some(address)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let v4 = || prop_oneof![any::<u32>(), Just(0), Just(u32::MAX)];
        // Zeros are frequent, so that runs of zeros occur at all positions.
        let group = || prop_oneof![Just(0_u16), Just(1), any::<u16>()];
        let v6 = || {
            prop::array::uniform8(group()).prop_map(|groups| Halves::from(Ipv6Addr::from(groups)))
        };
        let number = || (any::<u64>(), 0..64_u32).prop_map(|(number, bits)| number >> bits);
        prop_oneof![
            number().prop_map(Value::Number),
            number().prop_map(|number| Value::Negative(number.max(1))),
            v4().prop_map(Value::V4),
            v6().prop_map(Value::V6),
            v4().prop_map(|v4| Value::V6(Ipv4Addr::from(v4).to_ipv6_mapped().into())),
            (v4(), any::<u16>()).prop_map(|(address, port)| Value::SocketV4(address, port)),
            (v6(), any::<u16>()).prop_map(|(address, port)| Value::SocketV6(address, port)),
        ]
    }

    proptest! {
        #[test]
        fn a_value_is_parsed_from_its_text(value in value()) {
            let text = value.text();
            prop_assert!(text.bytes() == value.to_string().as_bytes());
            prop_assert_eq!(Value::of_text(text.bytes()), Some(value));
        }

        /// Changes the text of a value by one byte: inserts, removes or replaces it.
        #[test]
        fn only_the_usual_text_of_a_value_is_parsed_as_a_value(
            value in value(),
            at in any::<prop::sample::Index>(),
            byte in prop::sample::select(&b"0123456789abcdefF:.[]%-+ x"[..]),
            change in 0..3,
        ) {
            let mut text = value.to_string().into_bytes();
            let place = at.index(text.len());
            match change {
                0 => text.insert(place, byte),
                1 => drop(text.remove(place)),
                _ => text[place] = byte,
            }
            if let Some(found) = Value::of_text(&text) {
                prop_assert!(found.to_string().as_bytes() == text, "{:?}", found);
            }
        }

        #[test]
        fn bytes_are_parsed_as_a_value_only_if_they_are_its_text(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            if let Some(found) = Value::of_text(&bytes) {
                prop_assert!(found.to_string().as_bytes() == bytes, "{:?}", found);
            }
        }
    }

    #[test]
    fn texts_that_only_look_like_values_are_not_parsed() {
        let texts = [
            "",
            "-",
            "-0",
            "00",
            "007",
            "+7",
            "7 ",
            " 7",
            "1e3",
            "18446744073709551616",
            "1.2.3",
            "1.2.3.4.5",
            "01.2.3.4",
            "1.2.3.256",
            "1.2.3.4:",
            "1.2.3.4:080",
            "1.2.3.4:65536",
            "0::",
            "::0",
            "2001:DB8::1",
            "::1.2.3.4",
            "1:2:3:4:5:6:7",
            "fe80::1%2",
            "[::1]",
            "[::1]:",
            "[::1%2]:80",
            "a",
            "abc",
            "dead:beef",
        ];
        for text in texts {
            assert_eq!(Value::of_text(text.as_bytes()), None, "{text}");
        }
    }
}
