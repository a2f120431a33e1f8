//! Parses replies, one after the other, from the bytes that have arrived so far.

use std::fmt;

/// The longest line that is not a value, in bytes. Stats have many lines, each of them short.
const LONGEST_LINE: usize = 2048;

/// The largest value, in bytes. A server cannot hold more in one item.
const LARGEST_VALUE: usize = 1 << 30;

/// The longest answer to `stats`, in bytes.
const LONGEST_STATS: usize = 1 << 20;

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `HD`: done.
    Done(Flags),
    /// `VA`: a value.
    Value(Vec<u8>, Flags),
    /// `EN` or `NF`: there is no such item.
    Nothing(Flags),
    /// `NS` or `EX`: not stored, because the item has another version.
    NotStored(Flags),
    /// `MN`: the answer to a no-op.
    Heard,
    /// `STAT` lines: names and values.
    Stats(Vec<(String, String)>),
    /// `STORED`, `OK` and other words whose meaning does not matter.
    Word(String),
    /// `SERVER_ERROR`: the server could not execute the command, and why.
    ServerError(String),
    /// `CLIENT_ERROR` or `ERROR`: the server did not understand or rejected the command.
    Refused(String),
}

/// The flags of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `c`: the version of the item.
    pub cas: Option<u64>,
    /// `O`: the opaque token of the request.
    pub opaque: Option<u32>,
}

/// Bytes that are not a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Reply {
    /// The first reply in these bytes, and its length; `None` if it is not complete yet.
    ///
    /// # Errors
    /// When the bytes cannot become a reply.
    pub fn parse(input: &[u8]) -> Result<Option<(Reply, usize)>, Malformed> {
        let Some((line, after)) = first_line(input)? else { return Ok(None) };
        let (word, rest) = split_word(line);
        let flags = || Flags::parse(rest);
        let reply = match word {
            b"HD" => Reply::Done(flags()?),
            b"VA" => return value(input, rest, after),
            b"EN" | b"NF" => Reply::Nothing(flags()?),
            b"NS" | b"EX" => Reply::NotStored(flags()?),
            b"MN" => Reply::Heard,
            b"STAT" | b"END" => return stats(input),
            b"SERVER_ERROR" => Reply::ServerError(text(rest)),
            b"CLIENT_ERROR" | b"ERROR" => Reply::Refused(text(line)),
            b"OK" | b"STORED" | b"NOT_STORED" | b"VERSION" => Reply::Word(text(line)),
            _ => return Err(malformed("a reply", line)),
        };
        Ok(Some((reply, after)))
    }

    /// The opaque token, if the reply has one.
    pub(crate) fn opaque(&self) -> Option<u32> {
        match self {
            Reply::Done(flags)
            | Reply::Value(_, flags)
            | Reply::Nothing(flags)
            | Reply::NotStored(flags) => flags.opaque,
            _ => None,
        }
    }
}

impl Flags {
    /// Parses flags. Flags that were not requested are skipped.
    fn parse(mut rest: &[u8]) -> Result<Flags, Malformed> {
        let mut flags = Flags::default();
        while !rest.is_empty() {
            let (flag, tail) = split_word(rest);
            rest = tail;
            match flag.split_first() {
                Some((b'c', number)) => flags.cas = Some(digits(number)?),
                Some((b'O', number)) => flags.opaque = u32::try_from(digits(number)?).ok(),
                _ => {}
            }
        }
        Ok(flags)
    }
}

/// The first line without its end, and where the next one begins.
fn first_line(input: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    match input.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = &input[..end];
            Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1)))
        }
        None if input.len() >= LONGEST_LINE => Err(malformed("a line with an end", input)),
        None => Ok(None),
    }
}

/// `VA <size> <flags>`, and the value after it.
fn value(input: &[u8], rest: &[u8], start: usize) -> Result<Option<(Reply, usize)>, Malformed> {
    let (size, flags) = split_word(rest);
    let flags = Flags::parse(flags)?;
    let size = usize::try_from(digits(size)?).ok().filter(|size| *size <= LARGEST_VALUE);
    let end = start + size.ok_or_else(|| malformed("the size of a value", rest))?;
    match input.get(end..end + 2) {
        Some(b"\r\n") => Ok(Some((Reply::Value(input[start..end].to_vec(), flags), end + 2))),
        Some(other) => Err(malformed("the end of a value", other)),
        None => Ok(None),
    }
}

/// Lines up to `END`.
fn stats(input: &[u8]) -> Result<Option<(Reply, usize)>, Malformed> {
    let (mut stats, mut start) = (Vec::new(), 0);
    loop {
        if start > LONGEST_STATS {
            return Err(malformed("an end of stats", &input[start..]));
        }
        let Some((line, after)) = first_line(&input[start..])? else { return Ok(None) };
        start += after;
        let (word, rest) = split_word(line);
        match word {
            b"END" => return Ok(Some((Reply::Stats(stats), start))),
            b"STAT" => {
                let (name, value) = split_word(rest);
                stats.push((text(name), text(value)));
            }
            _ => return Err(malformed("stats", line)),
        }
    }
}

fn split_word(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|byte| *byte == b' ') {
        Some(blank) => (&line[..blank], &line[blank + 1..]),
        None => (line, &[]),
    }
}

fn digits(bytes: &[u8]) -> Result<u64, Malformed> {
    let number = std::str::from_utf8(bytes).ok().filter(|text| !text.starts_with('+'));
    number.and_then(|text| text.parse().ok()).ok_or_else(|| malformed("a number", bytes))
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn malformed(expected: &str, got: &[u8]) -> Malformed {
    Malformed(format!("expected {expected}, got \"{}\"", got[..got.len().min(60)].escape_ascii()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flags(cas: u64, opaque: u32) -> Flags {
        Flags { cas: Some(cas), opaque: Some(opaque) }
    }

    /// Replies of a server of version 1.6.18.
    fn examples() -> Vec<(&'static [u8], Reply)> {
        let stat = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            (b"HD c1 O7\r\n", Reply::Done(flags(1, 7))),
            (b"HD\r\n", Reply::Done(Flags::default())),
            (b"VA 2 c1 t352726844 O9 ka\r\nhi\r\n", Reply::Value(b"hi".into(), flags(1, 9))),
            (b"VA 4 c5\r\n\r\nx\n\r\n", {
                Reply::Value(b"\r\nx\n".into(), Flags { cas: Some(5), opaque: None })
            }),
            (b"VA 0 c5 O1\r\n\r\n", Reply::Value(Vec::new(), flags(5, 1))),
            (b"EN\r\n", Reply::Nothing(Flags::default())),
            (b"NF c0 O3\r\n", Reply::Nothing(flags(0, 3))),
            (b"NS c0 O3\r\n", Reply::NotStored(flags(0, 3))),
            (b"EX c0 O4294967295\r\n", Reply::NotStored(flags(0, u32::MAX))),
            (b"MN\r\n", Reply::Heard),
            (b"STORED\r\n", Reply::Word("STORED".into())),
            (b"STAT cas_enabled yes\r\nSTAT inter a b\r\nEND\r\n", {
                Reply::Stats(vec![stat("cas_enabled", "yes"), stat("inter", "a b")])
            }),
            (b"END\r\n", Reply::Stats(Vec::new())),
            (b"SERVER_ERROR out of memory storing object\r\n", {
                Reply::ServerError("out of memory storing object".into())
            }),
            (b"CLIENT_ERROR unauthenticated\r\n", {
                Reply::Refused("CLIENT_ERROR unauthenticated".into())
            }),
            (b"ERROR\r\n", Reply::Refused("ERROR".into())),
        ]
    }

    #[test]
    fn a_reply_is_parsed_only_when_it_is_complete() {
        for (bytes, wanted) in examples() {
            for end in 0..bytes.len() {
                assert_eq!(Reply::parse(&bytes[..end]), Ok(None), "{wanted:?} cut at {end}");
            }
            let followed = [bytes, b"HD\r\n"].concat();
            assert_eq!(Reply::parse(&followed), Ok(Some((wanted, bytes.len()))));
        }
    }

    #[test]
    fn bytes_that_are_no_reply_are_rejected_immediately() {
        let long = [b'x'; LONGEST_LINE];
        let wrong: [&[u8]; 9] = [
            b"HTTP/1.1 400 Bad Request\r\n",
            b"VA\r\n",
            b"VA -1\r\nx\r\n",
            b"VA +1\r\nx\r\n",
            b"VA 99999999999999999999 c1\r\n",
            b"VA 9999999999 c1\r\n",
            b"VA 2 c1\r\nhixx",
            b"HD cx\r\n",
            &long,
        ];
        for bytes in wrong {
            assert!(Reply::parse(bytes).is_err(), "{}", bytes.escape_ascii());
        }
        assert!(Reply::parse(b"STAT a b\r\nHD\r\n").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_read_beyond(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some((_, length))) = Reply::parse(&bytes) {
                prop_assert!(length > 0 && length <= bytes.len());
            }
        }

        #[test]
        fn replies_are_parsed_alike_in_any_pieces(
            picks in proptest::collection::vec(0_usize..16, 1..20),
            cuts in proptest::collection::vec(1_usize..40, 1..60),
        ) {
            let examples = examples();
            let picked: Vec<_> = picks.iter().map(|pick| &examples[*pick % examples.len()]).collect();
            let bytes: Vec<u8> = picked.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
            let (mut buffer, mut rest, mut read) = (Vec::new(), &bytes[..], Vec::new());
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*cut));
                buffer.extend_from_slice(now);
                rest = later;
                while let Some((reply, length)) = Reply::parse(&buffer).unwrap() {
                    buffer.drain(..length);
                    read.push(reply);
                }
                if rest.is_empty() {
                    break;
                }
            }
            let wanted: Vec<Reply> = picked.iter().map(|(_, reply)| reply.clone()).collect();
            prop_assert_eq!(read, wanted);
            prop_assert!(buffer.is_empty());
        }
    }
}
