//! Reports the state of the server to systemd, by one datagram.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The server is ready.
pub(super) const READY: &str = "READY=1";

/// The server is stopping.
pub(super) const STOPPING: &str = "STOPPING=1";

/// Reports a state, if systemd started the process with `Type=notify`.
pub(super) fn tell(state: &str) {
    let Some(socket) = env::var_os("NOTIFY_SOCKET") else { return };
    let sent = match socket.as_encoded_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&socket),
    }
    .and_then(|address| send(&address, state));
    if let Err(error) = sent {
        tracing::warn!(%error, state, "systemd could not be notified");
    }
}

fn send(address: &SocketAddr, state: &str) -> io::Result<usize> {
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), address)
}
