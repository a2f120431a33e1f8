//! Encodes RESP and HTTP requests and decodes the responses. Written by hand, because the load must
//! cost less than the server.

use std::io::Write as _;

use super::failure::Failure;

/// A protocol that this file encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Resp,
    Http,
}

/// The result of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Allowed,
    Denied,
    Error(Failure),
}

/// The result and the length of a response in bytes; `None` if the response is not complete.
type Answer = Option<(Outcome, usize)>;

/// Appends one request.
pub(super) fn question(wire: Wire, limit: &str, token: Option<&str>, key: u64, out: &mut Vec<u8>) {
    let key = format!("key:{key}");
    let _ = match wire {
        Wire::Resp => write!(
            out,
            "*3\r\n$6\r\nTG.HIT\r\n${}\r\n{limit}\r\n${}\r\n{key}\r\n",
            limit.len(),
            key.len()
        ),
        Wire::Http => {
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

/// The login of a protocol that logs in once per connection.
pub(super) fn greeting(wire: Wire, token: Option<&str>) -> Option<Vec<u8>> {
    let token = token.filter(|_| wire == Wire::Resp)?;
    Some(format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{token}\r\n", token.len()).into_bytes())
}

/// Decodes the first response in these bytes.
///
/// # Errors
/// When the bytes are not of this protocol.
pub(super) fn answer(wire: Wire, bytes: &[u8]) -> Result<Answer, Failure> {
    match wire {
        Wire::Resp => match bytes.first() {
            None | Some(b'*' | b'+' | b'-') => Ok(resp(bytes)),
            Some(_) => Err(foreign("RESP", bytes)),
        },
        Wire::Http => {
            let start = b"HTTP/1.";
            let length = bytes.len().min(start.len());
            if bytes[..length] != start[..length] {
                return Err(foreign("HTTP", bytes));
            }
            Ok(http(bytes))
        }
    }
}

fn foreign(name: &str, bytes: &[u8]) -> Failure {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(&line[..line.len().min(80)]);
    let text = format!("{:?} is no {name}; is that the {name} port?", line.trim_end());
    Failure::new(format!("not {name}"), &text)
}

/// A flat list of names and values, an error, or a status.
fn resp(bytes: &[u8]) -> Answer {
    let mut at = 0;
    let (kind, rest) = line(bytes, &mut at)?;
    match kind {
        b'-' => {
            let text = String::from_utf8_lossy(rest);
            let (code, text) = text.split_once(' ').unwrap_or((&text, ""));
            Some((Outcome::Error(Failure::new(code, text)), at))
        }
        b'*' => {
            let (mut allowed, mut name) = (None, &b""[..]);
            for _ in 0..number(rest)? {
                let (kind, value) = line(bytes, &mut at)?;
                if kind == b'$' && value != b"-1" {
                    let length = number(value)?;
                    name = bytes.get(at..at + length)?;
                    at += length + 2;
                } else if name == b"allowed" {
                    allowed = Some(value == b"1");
                    name = b"";
                }
            }
            let outcome = match allowed {
                Some(true) => Outcome::Allowed,
                Some(false) => Outcome::Denied,
                None => Outcome::Error(Failure::new("invalid response", "it has no \"allowed\"")),
            };
            (at <= bytes.len()).then_some((outcome, at))
        }
        _ => Some((Outcome::Allowed, at)),
    }
}

fn http(bytes: &[u8]) -> Answer {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let end = head + length.unwrap_or(0);
    let body = bytes.get(head..end)?;
    let outcome = match text.get(9..12)? {
        "200" => Outcome::Allowed,
        "429" => Outcome::Denied,
        status => {
            let body = String::from_utf8_lossy(body);
            Outcome::Error(Failure::new(format!("HTTP {status}"), &body))
        }
    };
    Some((outcome, end))
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
    fn an_answer_is_parsed_only_when_it_is_complete() {
        let resp = b"*4\r\n$5\r\nlimit\r\n:10\r\n$7\r\nallowed\r\n:1\r\n-ERR x\r\n";
        let http = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n{}HTTP";
        for (wire, bytes, outcome, length) in [
            (Wire::Resp, &resp[..], Outcome::Allowed, resp.len() - 8),
            (Wire::Http, &http[..], Outcome::Denied, http.len() - 4),
        ] {
            assert_eq!(answer(wire, bytes), Ok(Some((outcome, length))));
            for end in 0..length {
                assert_eq!(answer(wire, &bytes[..end]), Ok(None), "{wire:?} {end}");
            }
        }
        let failure = Failure::new("ERR", "x");
        let error = answer(Wire::Resp, &resp[resp.len() - 8..]);
        assert_eq!(error, Ok(Some((Outcome::Error(failure), 8))));
    }

    #[test]
    fn an_answer_of_another_protocol_is_an_error() {
        for (wire, bytes) in [
            (Wire::Resp, &b"HTTP/1.1 400 Bad Request\r\n"[..]),
            (Wire::Resp, b"\0\0\x12\x04"),
            (Wire::Http, b"-ERR unknown command\r\n"),
            (Wire::Http, b"HTTP/2"),
        ] {
            assert!(answer(wire, bytes).unwrap_err().text.contains("port?"), "{bytes:?}");
        }
    }
}
