//! Real servers for tests: processes on free ports of the loopback, killed on drop.
//!
//! [`Engine`] is a Redis server or a NATS server. The tests of other stores start a [`Process`]
//! with the arguments that their server needs:
//!
//! ```no_run
//! use tollgate_testservers::{Process, eventually, free_port};
//!
//! let port = free_port();
//! let mut server = Process::new("memcached", "memcached");
//! server.start(|command| {
//!     command.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
//! });
//! eventually("it listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
//! server.freeze();
//! server.thaw();
//! server.kill();
//! ```

pub mod calls;

mod certificates;
mod directory;
mod engine;
mod port;
mod process;
mod together;

pub use certificates::Certificates;
pub use directory::Directory;
pub use engine::Engine;
pub use port::free_port;
pub use process::Process;
pub use together::Together;

use std::time::Duration;

use tollgate::{Clock, SystemClock};

/// How long tests wait for something that must happen, for example that a server starts.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the condition holds, as long as a slow machine may need.
///
/// # Panics
/// When it does not hold after [`PATIENCE`].
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    let begin = clock.now();
    while !holds() {
        assert!(clock.now().since(begin) < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
