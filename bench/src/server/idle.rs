//! The cost of connections that sent one question and are then idle.

use super::contenders::{REDIS, THROTTLECRAB, TOLLGATE};
use super::process::{Server, Servers, rest};
use crate::{Outcome, progress};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The memory of a server with idle connections.
pub(crate) struct Held {
    pub(crate) server: &'static str,
    pub(crate) connections: usize,
    /// The resident memory of the whole process with them, in bytes.
    pub(crate) resident: f64,
    /// The bytes added by the connections.
    pub(crate) added: f64,
}

pub(crate) fn measure(servers: &Servers, connections: usize) -> Outcome<Vec<Held>> {
    progress(&format!("{connections} idle connections"));
    let mut all = Vec::new();
    for server in servers.iter().filter(|s| [TOLLGATE, REDIS, THROTTLECRAB].contains(&s.name)) {
        all.push(held(server, connections)?);
    }
    Ok(all)
}

fn held(server: &Server, connections: usize) -> Outcome<Held> {
    let before = server.resident()?;
    let mut streams = Vec::with_capacity(connections);
    for _ in 0..connections {
        let mut stream = TcpStream::connect(server.resp)?;
        stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
        stream.read_exact(&mut [0; 7])?;
        streams.push(stream);
    }
    rest(Duration::from_secs(1));
    let resident = server.resident()?;
    Ok(Held { server: server.name, connections, resident, added: resident - before })
}
