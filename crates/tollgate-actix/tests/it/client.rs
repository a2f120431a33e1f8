//! A client that implements only HTTP/1.1, so that tests see the bytes on the wire.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use sfv::{BareItem, List, ListEntry, Parser};

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.status)?;
        self.headers.iter().try_for_each(|(name, value)| writeln!(f, "{name}: {value}"))?;
        f.write_str(&self.text())
    }
}

impl Answer {
    /// The value of a header that must appear once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let first = values.next();
        assert_eq!(values.next(), None, "{name} twice in {self:?}");
        first
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.header(name).map(|value| value.parse().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The members of a structured list over all lines: the string of each, and its parameters.
    pub(crate) fn list(&self, name: &str) -> Vec<(String, Vec<(String, i64)>)> {
        let lines = self.headers.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let joined = lines.collect::<Vec<_>>().join(", ");
        let list: List = Parser::new(&joined).parse().unwrap();
        list.iter().map(member).collect()
    }
}

fn member(entry: &ListEntry) -> (String, Vec<(String, i64)>) {
    let ListEntry::Item(item) = entry else { panic!("an inner list") };
    let BareItem::String(name) = &item.bare_item else { panic!("{item:?} is no string") };
    let parameters = item.params.iter().map(|(key, value)| {
        let BareItem::Integer(value) = value else { panic!("{value:?} is no integer") };
        (key.as_str().to_owned(), i64::from(*value))
    });
    (name.as_str().to_owned(), parameters.collect())
}

/// Sends one request on a new connection, so that workers take turns.
pub(crate) fn send(to: SocketAddr, line: &str, headers: &[&str]) -> io::Result<Answer> {
    exchange(TcpStream::connect(to)?, line, headers)
}

pub(crate) fn get(to: SocketAddr, path: &str) -> Answer {
    send(to, &format!("GET {path}"), &[]).unwrap()
}

pub(crate) fn exchange(
    mut stream: impl Read + Write,
    line: &str,
    headers: &[&str],
) -> io::Result<Answer> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let request = format!("{line} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes())?;
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw)?;
    answer(&raw).ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "no whole answer"))
}

fn answer(raw: &[u8]) -> Option<Answer> {
    let end = raw.windows(4).position(|window| window == b"\r\n\r\n")?;
    let mut lines = std::str::from_utf8(&raw[..end]).ok()?.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    let headers: Vec<_> = headers.collect::<Option<_>>()?;
    let body = &raw[end + 4..];
    let chunked =
        headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if chunked { joined(body)? } else { body.to_vec() };
    Some(Answer { status, headers, body })
}

/// A body in chunks.
fn joined(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).ok()?, 16).ok()?;
        chunks = &chunks[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend(chunks.get(..size)?);
        chunks = chunks.get(size + 2..)?;
    }
}
