//! Connections that have said something once and then nothing: what they cost.

use super::contenders::{REDIS, THROTTLECRAB, TOLLGATE};
use super::process::{Server, Servers, rest};
use crate::{Outcome, progress};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What a server has in memory for connections that do nothing.
pub(crate) struct Held {
    pub(crate) server: &'static str,
    pub(crate) connections: usize,
    /// Bytes in memory with them, of the whole process.
    pub(crate) resident: f64,
    /// Bytes more than before.
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
