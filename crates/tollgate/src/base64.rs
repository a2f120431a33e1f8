//! Base64 without padding.

/// The alphabet of most uses, for instance of gRPC headers that end in `-bin`.
pub const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The alphabet of base64url, whose characters need no escapes in URLs and names.
pub const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the characters of these bytes.
pub fn encode<'a>(alphabet: &'a [u8; 64], bytes: &'a [u8]) -> impl Iterator<Item = u8> + 'a {
    bytes.chunks(3).flat_map(move |chunk| {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        (0..=chunk.len()).map(move |place| alphabet[(bits >> (18 - 6 * place) & 63) as usize])
    })
}

/// Returns the three bytes of four characters of base64url, or the first character that is none.
pub fn decode(characters: [u8; 4]) -> Result<[u8; 3], u8> {
    let mut bits = 0;
    for character in characters {
        let digit = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return Err(character),
        };
        bits = bits << 6 | u32::from(digit);
    }
    let [_, bytes @ ..] = bits.to_be_bytes();
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4648, section 10, without padding.
    #[test]
    fn encodes_the_examples_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert!(encode(STANDARD, bytes.as_bytes()).eq(text.bytes()), "{bytes}");
        }
    }

    #[test]
    fn bytes_are_read_as_they_were_written() {
        for number in (0..1_u32 << 24).step_by(97) {
            let [_, bytes @ ..] = number.to_be_bytes();
            let mut characters = [0; 4];
            encode(URL, &bytes).zip(&mut characters).for_each(|(from, to)| *to = from);
            assert_eq!(decode(characters), Ok(bytes));
        }
    }

    #[test]
    fn other_characters_are_refused() {
        for character in (0..=u8::MAX).filter(|character| !URL.contains(character)) {
            assert_eq!(decode([b'A', character, b'A', b'A']), Err(character));
        }
    }
}
