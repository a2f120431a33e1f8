//! Numbers as LEB128: seven bits to a byte, the lowest first; the highest bit of a byte says that
//! more follow. Protocol Buffers have the same form.

/// Calls `out` with each byte.
#[inline]
pub fn put(mut number: u64, mut out: impl FnMut(u8)) {
    while number >= 0x80 {
        out(number as u8 | 0x80);
        number >>= 7;
    }
    out(number as u8);
}

/// Reads a number from the front of `rest`; `None` if it is cut off or has more than 64 bits.
#[inline]
pub fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for number in [0, 1, 0x7f, 0x80, 300, 1 << 35, u64::MAX] {
            let mut bytes = Vec::new();
            put(number, |byte| bytes.push(byte));
            let rest = &mut &bytes[..];
            assert_eq!((take(rest), rest.len()), (Some(number), 0));
            assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(take(&mut &[0xff; 10][..]), None, "70 bits");
    }
}
