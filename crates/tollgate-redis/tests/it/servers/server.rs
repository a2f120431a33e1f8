//! One `redis-server` or `redis-sentinel`.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::eventually;

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    program: &'static str,
    /// Removed with everything in it when the server is dropped.
    dir: PathBuf,
    args: Vec<String>,
    cli: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// A server with more arguments than the usual ones.
    pub(crate) fn start(args: &[&str]) -> Server {
        Server::start_for(args, &[])
    }

    /// The same; `cli` are the arguments that `redis-cli` needs to talk to it.
    pub(crate) fn start_for(args: &[&str], cli: &[&str]) -> Server {
        let mut server = Server::new("redis-server", free_port(), args, cli);
        server.restart();
        server
    }

    /// On a port that was chosen before.
    pub(crate) fn start_at(port: u16) -> Server {
        let mut server = Server::new("redis-server", port, &[], &[]);
        server.restart();
        server
    }

    /// With arguments that make it speak TLS on that port.
    pub(super) fn start_tls(port: u16, args: Vec<String>, cli: Vec<String>) -> Server {
        let mut server = Server::new("redis-server", port, &[], &[]);
        (server.args, server.cli) = (args, cli);
        server.restart();
        server
    }

    /// A server on a socket in its own directory as well.
    pub(crate) fn start_with_socket() -> (Server, PathBuf) {
        let mut server = Server::new("redis-server", free_port(), &[], &[]);
        let socket = server.dir.join("redis.sock");
        server.args.extend(["--unixsocket".into(), socket.display().to_string()]);
        server.restart();
        (server, socket)
    }

    /// A sentinel with that configuration.
    pub(crate) fn start_sentinel(config: &str) -> Server {
        let mut server = Server::new("redis-sentinel", free_port(), &[], &[]);
        let file = server.dir.join("sentinel.conf");
        std::fs::write(&file, config).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        server.restart();
        server
    }

    fn new(program: &'static str, port: u16, args: &[&str], cli: &[&str]) -> Server {
        skip_without_servers();
        let owned = |args: &[&str]| args.iter().map(ToString::to_string).collect();
        Server { port, program, dir: directory(), args: owned(args), cli: owned(cli), child: None }
    }

    /// Starts it again where it was, without what it knew.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let mut command = Command::new(self.program);
        if self.program == "redis-sentinel" {
            command.arg(self.dir.join("sentinel.conf"));
        } else {
            command.args(["--save", "", "--appendonly", "no", "--loglevel", "warning"]);
        }
        command.args(["--dir".as_ref(), self.dir.as_os_str()]);
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"]);
        command.args(&self.args).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|e| panic!("{}: {e}", self.program));
        self.child = Some(child);
        eventually("the server answers a ping", || self.cli(&["PING"]).contains("PONG"));
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What `redis-cli` says.
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

    /// How many keys it holds.
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

    /// Not a word more from it, as if the machine had lost its power.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// It keeps its connections and says nothing.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    /// The same as [`kill`](Server::kill) for who only looks.
    pub(crate) fn kill_only(&self) {
        self.signal("-KILL");
    }

    fn signal(&self, signal: &str) {
        let Some(child) = &self.child else { panic!("no server to send {signal} to") };
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill {signal}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A port that nobody listens on. Below the range from which the system takes ports of its own, with room for a cluster's second port, which is
/// 10,000 higher.
pub(crate) fn free_port() -> u16 {
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

/// A new directory for one server.
pub(super) fn directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("tollgate-redis-{}-{number}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    dir
}

/// Ends the whole test binary well when there are no servers on this machine, unless that is not allowed.
fn skip_without_servers() {
    static THERE: OnceLock<bool> = OnceLock::new();
    let look = || Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    if *THERE.get_or_init(|| look().is_ok()) {
        return;
    }
    assert!(
        std::env::var_os("TOLLGATE_NO_SKIP").is_none(),
        "redis-server is not installed, and skipping is not allowed here"
    );
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: the tests of tollgate-redis need redis-server; `cargo xtask test` installs it"
    );
    std::process::exit(0);
}
