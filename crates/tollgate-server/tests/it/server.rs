//! The real binary on free ports, with its own files and a log that tests can read.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use tollgate_testservers::{Process, eventually, free_port};

/// A running `tollgate serve`, killed when dropped.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) resp: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Server {
    /// A server that is not started yet: tests may write files into its directory.
    pub(crate) fn new() -> Server {
        let local = || SocketAddr::from(([127, 0, 0, 1], free_port()));
        let process = Process::new(env!("CARGO_BIN_EXE_tollgate"), "tollgate");
        Server { process, http: local(), grpc: local(), resp: local(), admin: local() }
    }

    /// Starts a server with these arguments and all ports open.
    pub(crate) fn start(arguments: &[&str]) -> Server {
        Server::new().run(arguments, |_| {})
    }

    /// Starts a server with this text as `tollgate.toml`.
    pub(crate) fn told(config: &str) -> Server {
        Server::with(config, &[], |_| {})
    }

    /// Starts a server with this text as `tollgate.toml`, more arguments, and other changes of the
    /// command.
    pub(crate) fn with(
        config: &str,
        arguments: &[&str],
        more: impl FnOnce(&mut Command),
    ) -> Server {
        let server = Server::new();
        server.write("tollgate.toml", config);
        server.run(&[&["--config", "tollgate.toml"], arguments].concat(), more)
    }

    /// Starts the server and waits until it is ready. Ports without an argument are chosen by the
    /// system.
    pub(crate) fn run(mut self, arguments: &[&str], more: impl FnOnce(&mut Command)) -> Server {
        self.launch(arguments, more);
        self
    }

    /// Like [`run`](Server::run), after the previous process on the same ports was stopped.
    pub(crate) fn launch(&mut self, arguments: &[&str], more: impl FnOnce(&mut Command)) {
        let (said, log, ports) = (self.path("said"), self.path("log"), self.ports());
        self.process.start(|command| {
            command.arg("serve");
            for (flag, address) in ports.map(|(name, address)| (format!("--{name}"), address)) {
                if !arguments.contains(&&flag[..]) {
                    command.arg(flag).arg(address.to_string());
                }
            }
            command.args(arguments);
            command.stdout(File::create(said).unwrap()).stderr(File::create(log).unwrap());
            more(command);
        });
        eventually("the server listens", || self.read("said").contains("  rules  "));
    }

    /// The ports of clients and the admin port.
    pub(crate) fn ports(&self) -> [(&'static str, SocketAddr); 4] {
        [("http", self.http), ("grpc", self.grpc), ("resp", self.resp), ("admin", self.admin)]
    }

    /// The path of a file in the server's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.process.dir().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Writes a file in place, as `>` of a shell does.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Puts a new file in the place of the old one, as editors do.
    pub(crate) fn put(&self, name: &str, text: &str) {
        self.write("other", text);
        std::fs::rename(self.path("other"), self.path(name)).unwrap();
    }

    pub(crate) fn log(&self) -> String {
        self.read("log")
    }

    /// Waits until this is in the log.
    pub(crate) fn logged(&self, text: &str) {
        eventually(text, || self.log().contains(text));
    }

    /// The answer of the admin port to a path.
    pub(crate) fn admin(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The exit code, when the process has ended by itself.
    pub(crate) fn code(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("the server ends", || {
            status = self.process.ended();
            status.is_some()
        });
        status?.code()
    }
}
