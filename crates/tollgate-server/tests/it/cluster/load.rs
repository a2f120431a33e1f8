//! Callers that count admitted hits.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Threads that hit as fast as they are answered, until they are stopped.
pub(crate) struct Load {
    threads: Vec<JoinHandle<()>>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    over: AtomicBool,
    passed: AtomicU64,
    refused: AtomicU64,
}

impl Load {
    /// Starts this many callers for each server, all on one key.
    pub(crate) fn start(servers: &[SocketAddr], callers: usize) -> Load {
        let counts = Arc::new(Counts::default());
        let caller = |server: SocketAddr| {
            let counts = Arc::clone(&counts);
            std::thread::spawn(move || {
                while !counts.over.load(Ordering::Relaxed) {
                    match hit(server) {
                        Some(true) => counts.passed.fetch_add(1, Ordering::Relaxed),
                        Some(false) => counts.refused.fetch_add(1, Ordering::Relaxed),
                        None => 0,
                    };
                }
            })
        };
        let threads = servers.iter().flat_map(|server| [*server].repeat(callers)).map(caller);
        Load { threads: threads.collect(), counts: Arc::clone(&counts) }
    }

    pub(crate) fn passed(&self) -> u64 {
        self.counts.passed.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.counts.refused.load(Ordering::Relaxed)
    }

    /// Stops the callers. Returns the number of admitted hits.
    pub(crate) fn end(self) -> u64 {
        self.counts.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.counts.passed.load(Ordering::Relaxed)
    }
}

/// One hit: whether it was admitted; `None` without a decision.
pub(crate) fn hit(server: SocketAddr) -> Option<bool> {
    let answer = ask(server, "POST /v1/hit")?;
    let passed = answer.contains("\"allowed\":true");
    (passed || answer.contains("\"allowed\":false")).then_some(passed)
}

/// A figure of the server's answer about the key.
pub(crate) fn ask(server: SocketAddr, what: &str) -> Option<String> {
    let mut stream = TcpStream::connect(server).ok()?;
    // Without a timeout, a suspended server would block the caller without end.
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    let request =
        format!("{what}?limit=api&key=k HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
