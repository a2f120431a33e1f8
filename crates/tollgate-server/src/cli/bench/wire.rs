//! What goes over the wire, and what the answers mean. A client of its own: it must cost less than the server.

use std::io::Write as _;

use super::Speaks;

/// What an answer said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Allowed,
    Denied,
    Error,
}

/// Appends one question.
pub(super) fn question(
    speaks: Speaks,
    limit: &str,
    token: Option<&str>,
    key: u64,
    out: &mut Vec<u8>,
) {
    let key = format!("key:{key}");
    let _ = match speaks {
        Speaks::Resp => write!(
            out,
            "*3\r\n$6\r\nTG.HIT\r\n${}\r\n{limit}\r\n${}\r\n{key}\r\n",
            limit.len(),
            key.len()
        ),
        Speaks::Http => {
            let body = serde_json::json!({"limit": limit, "key": key}).to_string();
            let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
            write!(
                out,
                "POST /v1/hit HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n{}content-length: {}\r\n\r\n{body}",
                token.unwrap_or_default(),
                body.len()
            )
        }
    };
}

/// What logs in, on a connection that does that once.
pub(super) fn greeting(speaks: Speaks, token: Option<&str>) -> Option<Vec<u8>> {
    let token = token.filter(|_| speaks == Speaks::Resp)?;
    Some(format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{token}\r\n", token.len()).into_bytes())
}

/// The first answer in these bytes and its length; `None` if it is not all there.
pub(super) fn answer(speaks: Speaks, bytes: &[u8]) -> Option<(Said, usize)> {
    match speaks {
        Speaks::Resp => resp(bytes),
        Speaks::Http => http(bytes),
    }
}

/// A flat list of names and values, an error, or a status.
fn resp(bytes: &[u8]) -> Option<(Said, usize)> {
    let mut at = 0;
    let (kind, rest) = line(bytes, &mut at)?;
    match kind {
        b'-' => Some((Said::Error, at)),
        b'*' => {
            let (mut said, mut name) = (Said::Error, &b""[..]);
            for _ in 0..number(rest)? {
                let (kind, value) = line(bytes, &mut at)?;
                if kind == b'$' && value != b"-1" {
                    let length = number(value)?;
                    name = bytes.get(at..at + length)?;
                    at += length + 2;
                } else if name == b"allowed" {
                    said = if value == b"1" { Said::Allowed } else { Said::Denied };
                    name = b"";
                }
            }
            (at <= bytes.len()).then_some((said, at))
        }
        _ => Some((Said::Allowed, at)),
    }
}

fn http(bytes: &[u8]) -> Option<(Said, usize)> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).ok()?;
    let said = match text.get(9..12)? {
        "200" => Said::Allowed,
        "429" => Said::Denied,
        _ => Said::Error,
    };
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let end = head + length.unwrap_or(0);
    (end <= bytes.len()).then_some((said, end))
}

/// The first byte of a line and the rest of it, without its end.
fn line<'a>(bytes: &'a [u8], at: &mut usize) -> Option<(u8, &'a [u8])> {
    let rest = bytes.get(*at..)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    *at += end + 1;
    let (kind, text) = rest.get(..end.checked_sub(1)?)?.split_first()?;
    Some((*kind, text))
}

fn number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_it_is_all_there() {
        let resp = b"*4\r\n$5\r\nlimit\r\n:10\r\n$7\r\nallowed\r\n:1\r\n-ERR x\r\n";
        let http = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n{}HTTP";
        for (speaks, bytes, said, length) in [
            (Speaks::Resp, &resp[..], Said::Allowed, resp.len() - 8),
            (Speaks::Http, &http[..], Said::Denied, http.len() - 4),
        ] {
            assert_eq!(answer(speaks, bytes), Some((said, length)));
            for end in 0..length {
                assert_eq!(answer(speaks, &bytes[..end]), None, "{speaks:?} {end}");
            }
        }
        assert_eq!(answer(Speaks::Resp, &resp[resp.len() - 8..]), Some((Said::Error, 8)));
    }
}
