//! A client that sends exactly the bytes it is given.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..])
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Client {
        Client { stream: BufReader::new(TcpStream::connect(address).unwrap()) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// The next answer; `None` at the end of the connection.
    pub(crate) fn read(&mut self) -> Option<Reply> {
        let mut line = String::new();
        self.stream.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).ok().filter(|length| *length > 0)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        let mut reply = Reply { status, headers, body: String::new() };
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).ok()?;
        reply.body = String::from_utf8(body).unwrap();
        Some(reply)
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> Reply {
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n");
        self.send(format!("{head}\r\n{body}").as_bytes()).unwrap();
        self.read().unwrap()
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Reply {
        self.ask("POST", path, body)
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.ask("GET", path, "")
    }
}
