//! Servers that examples talk to.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use crate::outcome::{Outcome, because};

/// A Redis server on a free port of the loopback, gone when it is dropped.
pub(crate) struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    pub(crate) fn start() -> Outcome<Redis> {
        let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
        let Ok(port) = port.map(|address| address.port()) else {
            return because("no free port for a Redis server");
        };
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()]);
        match command.stdout(Stdio::null()).spawn() {
            Ok(child) => Redis { child, port }.answering(),
            Err(error) => because(format!("redis-server did not start: {error}")),
        }
    }

    fn answering(mut self) -> Outcome<Redis> {
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return because(format!("redis-server ended with {status}"));
            }
            std::thread::yield_now();
        }
        Ok(self)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
