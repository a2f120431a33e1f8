//! A Redis server or a NATS server.

use std::net::TcpStream;

use crate::{Process, eventually, free_port};

/// A server that keeps nothing on disk. It starts on a free port; drop kills it.
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
    /// Starts a `redis-server`, with more arguments after the usual ones.
    ///
    /// # Panics
    /// When the server is not installed although it must be, or does not listen in time: see
    /// [`Process::new`] and [`eventually`].
    #[must_use]
    pub fn redis(arguments: &[&str]) -> Engine {
        let usual = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port"];
        Engine::start("redis", &usual, arguments)
    }

    /// Starts a `nats-server`, with more arguments after the usual ones.
    ///
    /// ```no_run
    /// let nats = tollgate_testservers::Engine::nats(&["--user", "gate", "--pass", "secret"]);
    /// ```
    ///
    /// # Panics
    /// Starts a NATS server, like [`redis`](Engine::redis).
    #[must_use]
    pub fn nats(arguments: &[&str]) -> Engine {
        Engine::start("nats", &["-a", "127.0.0.1", "-p"], arguments)
    }

    /// The last of the usual arguments is the option that the port follows.
    fn start(scheme: &'static str, usual: &[&str], more: &[&str]) -> Engine {
        let (port, program) = (free_port(), format!("{scheme}-server"));
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let arguments = [words(usual), vec![port.to_string()], words(more)].concat();
        let process = Process::new(&program[..], &program);
        let mut engine = Engine { scheme, port, process, arguments };
        engine.again();
        engine
    }

    /// Starts a killed server again, on the same port and without data.
    pub fn again(&mut self) {
        let Engine { process, arguments, port, .. } = self;
        process.start(|command| {
            command.args(arguments);
        });
        eventually("the engine listens", || TcpStream::connect(("127.0.0.1", *port)).is_ok());
    }

    /// The port on which it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// The URL of the server when it is reached through another port, for example through a proxy.
    #[must_use]
    pub fn url_at(&self, port: u16) -> String {
        format!("{}://127.0.0.1:{port}", self.scheme)
    }

    /// The process id of the server, while it runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// See [`Process::kill`].
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// See [`Process::freeze`].
    pub fn freeze(&self) {
        self.process.freeze();
    }

    /// See [`Process::thaw`].
    pub fn thaw(&self) {
        self.process.thaw();
    }
}
