//! The configuration of the real binary: files, and what becomes of it when they change.

mod check;
mod reload;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use tollgate_testkit::servers::{Process, eventually, free_port};

use crate::resp::{Client, Value};

/// The real binary with a configuration that can be changed and a log that can be read.
struct Server {
    process: Process,
    resp: SocketAddr,
    admin: SocketAddr,
}

impl Server {
    /// With this text as `tollgate.toml`.
    fn start(config: &str) -> Server {
        let server = Server::new();
        server.write("tollgate.toml", config);
        server.run("tollgate.toml")
    }

    /// Not started yet: files may be put in its directory.
    fn new() -> Server {
        let local = || SocketAddr::from(([127, 0, 0, 1], free_port()));
        let process = Process::new(env!("CARGO_BIN_EXE_tollgate"), "tollgate");
        Server { process, resp: local(), admin: local() }
    }

    /// With a file of its directory, or one below.
    fn run(mut self, config: &str) -> Server {
        let (said, log) = (self.path("said"), self.path("log"));
        let (resp, admin) = (self.resp.to_string(), self.admin.to_string());
        self.process.start(|command| {
            command.args(["serve", "--config", config, "--http", "off", "--grpc", "off"]);
            command.args(["--resp", &resp, "--admin", &admin]);
            command.stdout(File::create(said).unwrap()).stderr(File::create(log).unwrap());
        });
        eventually("the server is ready", || self.read("said").contains("is ready"));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.process.dir().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Writes a file in place, as `>` of a shell does.
    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Puts a new file in the place of the old one, as editors do.
    fn put(&self, name: &str, text: &str) {
        self.write("other", text);
        std::fs::rename(self.path("other"), self.path(name)).unwrap();
    }

    fn client(&self) -> Client {
        Client::connect(self.resp)
    }

    fn logged(&self, text: &str) {
        eventually(text, || self.read("log").contains(text));
    }

    /// Until the limit of a rule is this.
    fn eventually_has(&self, rule: &str, limit: i64) {
        let mut client = self.client();
        eventually("the rule is in force", || {
            let answer = client.ask(&format!("TG.PEEK {rule} nobody"));
            !matches!(answer, Value::Error(_)) && answer.field("limit").integer() == limit
        });
    }

    /// What the admin port says about something.
    fn admin(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}
