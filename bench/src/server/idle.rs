//! The cost of connections that sent one question and are then idle.

use super::contenders::{REDIS, THROTTLECRAB, TOLLGATE};
use super::process::{Server, Servers, rest};
use crate::{Outcome, progress};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The memory of a server with idle connections.
pub(crate) struct Held {
    pub(crate) server: &'static str,
    pub(crate) port: &'static str,
    pub(crate) connections: usize,
    /// The resident memory of the whole process with them, in bytes.
    pub(crate) resident: f64,
    /// The bytes added by the connections.
    pub(crate) added: f64,
}

const PING: &str = "*1\r\n$4\r\nPING\r\n";
const PONG: &str = "+PONG\r\n";

pub(crate) fn measure(servers: &Servers, connections: usize) -> Outcome<Vec<Held>> {
    progress(&format!("{connections} idle connections"));
    let mut all = Vec::new();
    for server in servers.iter().filter(|s| [TOLLGATE, REDIS, THROTTLECRAB].contains(&s.name)) {
        all.push(held(server, "RESP", (server.resp, PING, PONG), connections)?);
        let (path, body) = match server.name {
            TOLLGATE => ("/v1/hit", r#"{"limit":"10000/minute","key":"idle"}"#),
            THROTTLECRAB => (
                "/throttle",
                r#"{"key":"idle","max_burst":9,"count_per_period":9999,"period":60,"quantity":1}"#,
            ),
            _ => continue,
        };
        let ask = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        all.push(held(server, "HTTP", (server.http, &ask, "HTTP/1.1 "), connections)?);
    }
    Ok(all)
}

/// Asks on so many connections at the same time, and keeps them open.
fn held(
    server: &Server,
    port: &'static str,
    (address, ask, answer): (SocketAddr, &str, &str),
    connections: usize,
) -> Outcome<Held> {
    let before = server.resident()?;
    let mut streams = Vec::with_capacity(connections);
    for _ in 0..connections {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(ask.as_bytes())?;
        let mut begin = vec![0; answer.len()];
        stream.read_exact(&mut begin)?;
        if begin != answer.as_bytes() {
            let said = String::from_utf8_lossy(&begin);
            return Err(format!("{}, {port}: answered {said}", server.name).into());
        }
        streams.push(stream);
    }
    rest(Duration::from_secs(1));
    let resident = server.resident()?;
    Ok(Held { server: server.name, port, connections, resident, added: resident - before })
}
