//! A Redis or a NATS.

use std::net::TcpStream;

use crate::{Process, eventually, free_port};

/// A server that keeps nothing on disk, started on a free port and killed when it is dropped.
///
/// ```no_run
/// use tollgate_testservers::Engine;
///
/// let mut redis = Engine::redis(&["--requirepass", "secret"]);
/// assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
/// redis.kill();
/// redis.again();
/// ```
#[derive(Debug)]
pub struct Engine {
    scheme: &'static str,
    port: u16,
    process: Process,
    arguments: Vec<String>,
}

impl Engine {
    /// A `redis-server` with more arguments than the usual ones.
    ///
    /// # Panics
    /// As [`Process::new`] and [`eventually`]: when it must be there and is not, or does not listen. See the example of [`Engine`].
    #[must_use]
    pub fn redis(arguments: &[&str]) -> Engine {
        let usual = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port"];
        Engine::start("redis", &usual, arguments)
    }

    /// A `nats-server` with more arguments than the usual ones.
    ///
    /// ```no_run
    /// let nats = tollgate_testservers::Engine::nats(&["--user", "gate", "--pass", "secret"]);
    /// ```
    ///
    /// # Panics
    /// As [`redis`](Engine::redis).
    #[must_use]
    pub fn nats(arguments: &[&str]) -> Engine {
        Engine::start("nats", &["-a", "127.0.0.1", "-p"], arguments)
    }

    /// The last of the usual arguments stands before the port.
    fn start(scheme: &'static str, usual: &[&str], more: &[&str]) -> Engine {
        let (port, program) = (free_port(), format!("{scheme}-server"));
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let arguments = [words(usual), vec![port.to_string()], words(more)].concat();
        let process = Process::new(&program[..], &program);
        let mut engine = Engine { scheme, port, process, arguments };
        engine.again();
        engine
    }

    /// Starts it after it was killed: at its old place, and with nothing in it.
    pub fn again(&mut self) {
        let Engine { process, arguments, port, .. } = self;
        process.start(|command| {
            command.args(arguments);
        });
        eventually("the engine listens", || TcpStream::connect(("127.0.0.1", *port)).is_ok());
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The same as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// Its URL for who reaches it by another port.
    #[must_use]
    pub fn url_at(&self, port: u16) -> String {
        format!("{}://127.0.0.1:{port}", self.scheme)
    }

    /// The number of its process, while it runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// As [`Process::kill`].
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// As [`Process::freeze`].
    pub fn freeze(&self) {
        self.process.freeze();
    }

    /// As [`Process::thaw`].
    pub fn thaw(&self) {
        self.process.thaw();
    }
}
