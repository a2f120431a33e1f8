//! One Memcached server.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_testservers::{PATIENCE, Process, eventually, free_port};

/// A server, stopped when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    pub(crate) port: u16,
    options: Vec<String>,
}

impl Server {
    pub(crate) fn start(options: &[&str]) -> Server {
        let process = Process::new("memcached", "memcached");
        let options = options.iter().map(ToString::to_string).collect();
        let mut server = Server { process, port: free_port(), options };
        server.restart();
        server
    }

    /// Starts a server on a Unix socket, without a port.
    pub(crate) fn start_with_socket() -> (Server, PathBuf) {
        let process = Process::new("memcached", "memcached");
        let socket = process.dir().join("socket");
        let options = vec!["-s".to_owned(), socket.display().to_string()];
        let mut server = Server { process, port: 0, options };
        server.process.start(|command| {
            command.args(["-u", "root"]).args(&server.options);
        });
        eventually("memcached answers", || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
        (server, socket)
    }

    /// Starts a server with these users, as lines `user:password`.
    pub(crate) fn start_with_users(users: &str) -> Server {
        let process = Process::new("memcached", "memcached");
        let file = process.dir().join("users");
        std::fs::write(&file, users).unwrap();
        let options = vec!["-Y".to_owned(), file.display().to_string()];
        let mut server = Server { process, port: free_port(), options };
        server.restart();
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("memcached://127.0.0.1:{}", self.port)
    }

    /// Starts it again, empty, on the same port.
    pub(crate) fn restart(&mut self) {
        let port = self.port.to_string();
        self.process.start(|command| {
            // As root the server runs only with this option; other users ignore it.
            command.args(["-u", "root", "-U", "0", "-l", "127.0.0.1", "-p", &port]);
            command.args(&self.options);
        });
        eventually("memcached answers", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    pub(crate) fn freeze(&self) {
        self.process.freeze();
    }

    pub(crate) fn thaw(&self) {
        self.process.thaw();
    }

    /// Sends one command, and returns the first line of its answer.
    pub(crate) fn says(&self, command: &str) -> String {
        says(self.port, command)
    }

    /// A figure of `stats`.
    pub(crate) fn stat(&self, name: &str) -> u64 {
        let mut stream = connect(self.port);
        stream.write_all(b"stats\r\n").unwrap();
        let wanted = format!("STAT {name} ");
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        let line = lines.find(|line| line.starts_with(&wanted) || line == "END").unwrap();
        line.strip_prefix(&wanted).unwrap().parse().unwrap()
    }
}

pub(crate) fn says(port: u16, command: &str) -> String {
    let mut stream = connect(port);
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE + Duration::from_secs(1))).unwrap();
    stream
}
