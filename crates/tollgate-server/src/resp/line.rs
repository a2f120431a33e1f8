//! A command on one line, as people type it: words between blanks, quotes around words with blanks.

/// Splits a line. The words without their quotes go into `unquoted`; returns their places there.
/// `None`: a quote is not closed, or a closed one is not followed by a blank.
pub(super) fn words(line: &[u8], unquoted: &mut Vec<u8>) -> Option<Vec<(usize, usize)>> {
    let mut places = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let from = unquoted.len();
        rest = word(rest, unquoted)?.trim_ascii_start();
        places.push((from, unquoted.len()));
    }
    // Distinguishes a line of one empty word from an empty line.
    unquoted.push(b'\n');
    Some(places)
}

/// Takes one word off; returns the rest, which begins with a blank.
fn word<'a>(mut rest: &'a [u8], unquoted: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return Some(rest),
            [blank, ..] if blank.is_ascii_whitespace() => return Some(rest),
            [b'"', quoted @ ..] => return closed(double(quoted, unquoted)?),
            [b'\'', quoted @ ..] => return closed(single(quoted, unquoted)?),
            [byte, after @ ..] => {
                unquoted.push(*byte);
                rest = after;
            }
        }
    }
}

fn closed(rest: &[u8]) -> Option<&[u8]> {
    rest.first().is_none_or(u8::is_ascii_whitespace).then_some(rest)
}

fn double<'a>(mut rest: &'a [u8], unquoted: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                unquoted.push(nibble(*high) << 4 | nibble(*low));
                rest = after;
            }
            [b'\\', escaped, after @ ..] => {
                unquoted.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = after;
            }
            [byte, after @ ..] => {
                unquoted.push(*byte);
                rest = after;
            }
        }
    }
}

fn single<'a>(mut rest: &'a [u8], unquoted: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'\\', b'\'', after @ ..] => {
                unquoted.push(b'\'');
                rest = after;
            }
            [b'\'', after @ ..] => return Some(after),
            [byte, after @ ..] => {
                unquoted.push(*byte);
                rest = after;
            }
        }
    }
}

/// The value of a hexadecimal digit.
fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.saturating_sub(b'A') + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut unquoted = Vec::new();
        let places = words(line, &mut unquoted)?;
        Some(places.into_iter().map(|(from, to)| unquoted[from..to].to_vec()).collect())
    }

    #[test]
    fn blanks_separate_and_quotes_join() {
        for (line, expected) in [
            (&b""[..], Some(vec![])),
            (b"  ", Some(vec![])),
            (b" a  b ", Some(vec![&b"a"[..], b"b"])),
            (b"a \"b c\" ''", Some(vec![b"a", b"b c", b""])),
            (br#""\x00\xfF\n\"" 'it\'s'"#, Some(vec![b"\x00\xff\n\"", b"it's"])),
            (b"pre\"fix\"", Some(vec![b"prefix"])),
            (b"\"open", None),
            (b"'open", None),
            (b"\"a\"b", None),
        ] {
            let expected =
                expected.map(|words| words.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
            assert_eq!(split(line), expected, "{}", line.escape_ascii());
        }
    }
}
