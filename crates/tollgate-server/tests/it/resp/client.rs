//! A client that implements only the protocol, so that tests see the bytes on the wire.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use tollgate_testservers::PATIENCE;

pub(crate) struct Client {
    stream: TcpStream,
    /// Bytes that were read and not decoded yet.
    rest: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    pub(crate) fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    pub(crate) fn integers(&self) -> Vec<i64> {
        let Value::Array(values) = self else { panic!("{self:?} is no array") };
        values.iter().map(Value::integer).collect()
    }

    pub(crate) fn integer(&self) -> i64 {
        let Value::Integer(number) = self else { panic!("{self:?} is no integer") };
        *number
    }

    pub(crate) fn error(&self) -> &str {
        let Value::Error(message) = self else { panic!("{self:?} is no error") };
        message
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Value::Simple(text) => text.clone(),
            Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("{other:?} is no text"),
        }
    }

    /// A field by its name, in an array of pairs or a map.
    pub(crate) fn field(&self, name: &str) -> &Value {
        let found = match self {
            Value::Array(parts) => parts.chunks(2).find(|pair| pair[0] == Value::bulk(name)),
            Value::Map(pairs) => {
                let pair = pairs.iter().find(|(key, _)| *key == Value::bulk(name));
                return &pair.unwrap_or_else(|| panic!("no {name} in {self:?}")).1;
            }
            _ => None,
        };
        &found.unwrap_or_else(|| panic!("no {name} in {self:?}"))[1]
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, rest: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends one command, given as words, and reads the answer.
    pub(crate) fn ask(&mut self, words: &str) -> Value {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.ask_of(&words)
    }

    pub(crate) fn ask_of(&mut self, arguments: &[&[u8]]) -> Value {
        self.send(&command(arguments));
        self.answer()
    }

    pub(crate) fn answer(&mut self) -> Value {
        self.try_answer().expect("an answer before the end")
    }

    /// `None` if the connection was closed.
    pub(crate) fn try_answer(&mut self) -> Option<Value> {
        loop {
            if let Some((value, length)) = decode(&self.rest) {
                self.rest.drain(..length);
                return Some(value);
            }
            let mut more = [0; 65536];
            match self.stream.read(&mut more) {
                Ok(0) => return None,
                Ok(count) => self.rest.extend_from_slice(&more[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// The bytes of one read.
    pub(crate) fn read_once(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 20];
        let count = self.stream.read(&mut bytes).unwrap();
        bytes.truncate(count);
        bytes
    }

    /// Whether the server has closed the connection, after any answers.
    pub(crate) fn ends(&mut self) -> bool {
        while self.try_answer().is_some() {}
        true
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

pub(crate) fn command(arguments: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A value and how many bytes it has; `None` if it is not complete.
fn decode(bytes: &[u8]) -> Option<(Value, usize)> {
    let end = bytes.windows(2).position(|window| window == b"\r\n")?;
    let line = String::from_utf8_lossy(&bytes[1..end]).into_owned();
    let mut at = end + 2;
    let value = match bytes[0] {
        b'+' => Value::Simple(line),
        b'-' => Value::Error(line),
        b':' => Value::Integer(line.parse().unwrap()),
        b'_' => Value::Null,
        b'$' | b'=' => {
            let Ok(length) = line.parse::<usize>() else { return Some((Value::Null, at)) };
            let content = bytes.get(at..at + length)?.to_vec();
            bytes.get(at + length..at + length + 2)?;
            at += length + 2;
            Value::Bulk(content)
        }
        kind @ (b'*' | b'%') => {
            let mut parts = Vec::new();
            let count: usize = line.parse().unwrap();
            for _ in 0..if kind == b'%' { 2 * count } else { count } {
                let (part, length) = decode(&bytes[at..])?;
                parts.push(part);
                at += length;
            }
            if kind == b'*' {
                Value::Array(parts)
            } else {
                Value::Map(parts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
            }
        }
        other => panic!("{:?} is the beginning of no answer", char::from(other)),
    };
    Some((value, at))
}
