//! The dashboard and its API on the admin port of the real binary.

mod access;
mod api;
mod bans;
mod browser;
mod devtools;
mod stream;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tollgate_server::auth::Hash;

use crate::server::Server;

/// A token that may only read, and one that may change counts.
const READ: &str = "token-that-reads";
const OPERATE: &str = "token-that-operates";

/// The tokens in a configuration.
fn tokens() -> String {
    let (read, operate) = (Hash::from_token(READ.as_bytes()), Hash::from_token(OPERATE.as_bytes()));
    format!(
        "[auth.admin_tokens]\nwatcher = {{ hash = '{read}', scope = 'read' }}\noperator = '{operate}'\n"
    )
}

/// The answer to a request.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            (known == name).then_some(value)
        })
    }
}

/// Sends the head of a request on a new connection.
fn begin(address: SocketAddr, request: &str, headers: &[&str], body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut text = format!("{request} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

fn send(address: SocketAddr, request: &str, headers: &[&str], body: &str) -> Reply {
    let mut text = String::new();
    begin(address, request, headers, body).read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.replace("\r\n", "\n"), body: body.to_owned() }
}

/// The answer of the API to a program with this token.
fn get(server: &Server, path: &str, token: &str) -> Reply {
    let token = format!("authorization: Bearer {token}");
    send(server.admin, &format!("GET /api/v1/{path}"), &[&token], "")
}

/// The answer to JSON of a program with this token.
fn post(server: &Server, path: &str, token: &str, body: &Value) -> Reply {
    let token = format!("authorization: Bearer {token}");
    let headers = [&token[..], "content-type: application/json"];
    send(server.admin, &format!("POST /api/v1/{path}"), &headers, &body.to_string())
}

/// Hits a rule `times` times.
fn hit(server: &Server, rule: &str, key: &str, times: usize) {
    for _ in 0..times {
        let body = json!({ "limit": rule, "key": key }).to_string();
        let reply = send(server.http, "POST /v1/hit", &[], &body);
        assert!(matches!(reply.status, 200 | 429), "{reply:?}");
    }
}
