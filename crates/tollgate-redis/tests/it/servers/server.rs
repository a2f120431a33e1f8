//! One `redis-server` or `redis-sentinel`.

use std::path::PathBuf;
use std::process::Command;

use tollgate_testservers::{Process, eventually, free_port};

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    sentinel: bool,
    process: Process,
    args: Vec<String>,
    cli: Vec<String>,
}

impl Server {
    /// Starts a server with additional arguments.
    pub(crate) fn start(args: &[&str]) -> Server {
        Server::start_for(args, &[])
    }

    /// The same; `cli` are the arguments that `redis-cli` needs for it.
    pub(crate) fn start_for(args: &[&str], cli: &[&str]) -> Server {
        let mut server = Server::new("redis-server", free_port(), args, cli);
        server.restart();
        server
    }

    /// Starts a server on a chosen port.
    pub(crate) fn start_at(port: u16) -> Server {
        let mut server = Server::new("redis-server", port, &[], &[]);
        server.restart();
        server
    }

    /// Starts a server that speaks TLS on that port, with these arguments.
    pub(super) fn start_tls(port: u16, args: Vec<String>, cli: Vec<String>) -> Server {
        let mut server = Server::new("redis-server", port, &[], &[]);
        (server.args, server.cli) = (args, cli);
        server.restart();
        server
    }

    /// A server that also listens on a socket in its directory.
    pub(crate) fn start_with_socket() -> (Server, PathBuf) {
        let mut server = Server::new("redis-server", free_port(), &[], &[]);
        let socket = server.process.dir().join("redis.sock");
        server.args.extend(["--unixsocket".into(), socket.display().to_string()]);
        server.restart();
        (server, socket)
    }

    /// A sentinel with that configuration.
    pub(crate) fn start_sentinel(config: &str) -> Server {
        let mut server = Server::new("redis-sentinel", free_port(), &[], &[]);
        let file = server.process.dir().join("sentinel.conf");
        std::fs::write(&file, config).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        server.restart();
        server
    }

    fn new(program: &'static str, port: u16, args: &[&str], cli: &[&str]) -> Server {
        let owned = |args: &[&str]| args.iter().map(ToString::to_string).collect();
        let sentinel = program == "redis-sentinel";
        let process = Process::new(program, program);
        Server { port, sentinel, process, args: owned(args), cli: owned(cli) }
    }

    /// Starts it again on the same port, without its data.
    pub(crate) fn restart(&mut self) {
        let dir = self.process.dir().to_owned();
        let port = self.port.to_string();
        self.process.start(|command| {
            if self.sentinel {
                command.arg(dir.join("sentinel.conf"));
            } else {
                command.args(["--save", "", "--appendonly", "no", "--loglevel", "warning"]);
            }
            command.args(["--dir".as_ref(), dir.as_os_str()]);
            command.args(["--port", &port, "--bind", "127.0.0.1"]).args(&self.args);
        });
        eventually("the server answers a ping", || self.cli(&["PING"]).contains("PONG"));
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The output of `redis-cli`.
    pub(crate) fn cli(&self, args: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]).args(&self.cli).args(args);
        let output = command.output().unwrap_or_else(|error| panic!("redis-cli: {error}"));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The same where the answer must be `OK`.
    pub(crate) fn ok(&self, args: &[&str]) {
        let answer = self.cli(args);
        assert_eq!(answer, "OK", "{args:?}");
    }

    /// A field of `INFO`.
    pub(crate) fn info(&self, field: &str) -> Option<String> {
        let info = self.cli(&["INFO", "everything"]);
        let value = |line: &str| Some(line.strip_prefix(field)?.strip_prefix(':')?.to_owned());
        info.lines().map(str::trim).find_map(value)
    }

    /// A number of `INFO commandstats`: how often a command was called.
    pub(crate) fn calls(&self, command: &str) -> u64 {
        let stats = self.info(&format!("cmdstat_{command}"));
        let calls = stats.as_deref().and_then(|stats| stats.split(',').next());
        let calls = calls.and_then(|calls| calls.strip_prefix("calls="));
        calls.and_then(|calls| calls.parse().ok()).unwrap_or(0)
    }

    /// The number of its keys.
    pub(crate) fn size(&self) -> u64 {
        self.cli(&["DBSIZE"]).parse().unwrap_or(u64::MAX)
    }

    /// Waits until a replica has everything that its primary has.
    pub(crate) fn has_all_of(&self, primary: &Server) {
        eventually("the replica has it all", || {
            let there = primary.info("master_repl_offset");
            there.is_some() && there == self.info("slave_repl_offset")
        });
    }

    /// Kills it as a power failure does.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Suspends it: it keeps its connections and does not respond.
    pub(crate) fn freeze(&self) {
        self.process.freeze();
    }

    pub(crate) fn thaw(&self) {
        self.process.thaw();
    }

    /// The same as [`kill`](Server::kill) for callers without `&mut`.
    pub(crate) fn kill_only(&self) {
        self.process.signal("KILL");
    }
}
