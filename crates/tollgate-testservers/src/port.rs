//! Free ports for the servers of tests.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};

/// A port without a listener. It lies below the range from which the system assigns ports. The port
/// that is 10,000 higher is free too, because nodes of a Redis cluster use it.
#[must_use]
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) * 7 + std::process::id() * 131;
        let port = 10_000 + u16::try_from(step % 10_000).unwrap_or(0);
        let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        let silent = TcpStream::connect(("127.0.0.1", port)).is_err();
        if silent && free(port) && free(port + 10_000) {
            return port;
        }
    }
}
