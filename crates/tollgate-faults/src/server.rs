//! The servers of the stores: real processes that can be killed, suspended and filled.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tollgate_testservers::{Process, eventually, free_port};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Redis,
    Nats,
    Memcached,
    Etcd,
    Postgres,
}

/// A server on a free port with its own data. Stopped and deleted when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) port: u16,
    peer_port: u16,
    process: Process,
}

impl Server {
    pub(crate) fn start(kind: Kind) -> Server {
        let (program, package) = match kind {
            Kind::Redis => ("redis-server".to_owned(), "redis-server"),
            Kind::Nats => ("nats-server".to_owned(), "nats-server"),
            Kind::Memcached => ("memcached".to_owned(), "memcached"),
            Kind::Etcd => ("etcd".to_owned(), "etcd-server"),
            Kind::Postgres => (postgres_program("postgres"), "postgresql"),
        };
        let process = Process::new(program, package);
        let mut server = Server { kind, port: free_port(), peer_port: free_port(), process };
        if kind == Kind::Postgres {
            server.make_database();
        }
        server.run();
        server
    }

    /// Starts the server with the existing data, and waits until it listens.
    pub(crate) fn run(&mut self) {
        let arguments = self.arguments();
        let pid_file = self.data().join("postmaster.pid");
        eventually("the server listens", || {
            if self.process.id().is_none() || self.process.ended().is_some() {
                // With the file of a killed server, PostgreSQL may take that server to be running
                // and not start.
                let _ = std::fs::remove_file(&pid_file);
                self.process.start(|command| {
                    as_postgres(command, self.kind).args(&arguments);
                });
            }
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    fn arguments(&self) -> Vec<String> {
        let (port, data) = (self.port, self.data().display().to_string());
        let text = match self.kind {
            Kind::Redis => format!("--bind 127.0.0.1 --save  --appendonly no --port {port}"),
            Kind::Nats => format!("-a 127.0.0.1 -p {port}"),
            Kind::Memcached => format!("-u root -U 0 -l 127.0.0.1 -p {port}"),
            Kind::Etcd => {
                let (client, peer) = (port, self.peer_port);
                format!(
                    "--data-dir {data} --log-level error --unsafe-no-fsync --quota-backend-bytes 4000000 \
                     --listen-client-urls http://127.0.0.1:{client} --advertise-client-urls http://127.0.0.1:{client} \
                     --listen-peer-urls http://127.0.0.1:{peer} --initial-advertise-peer-urls http://127.0.0.1:{peer} \
                     --initial-cluster default=http://127.0.0.1:{peer}"
                )
            }
            Kind::Postgres => format!(
                "-D {data} -p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
            ),
        };
        text.split(' ').map(str::to_owned).collect()
    }

    fn data(&self) -> PathBuf {
        self.process.dir().join("data")
    }

    fn make_database(&self) {
        let data = self.data();
        std::fs::create_dir(&data).unwrap_or_else(|error| panic!("{}: {error}", data.display()));
        if is_root() {
            succeeds(Command::new("chown").arg("postgres:postgres").arg(&data));
        }
        let mut initdb = Command::new(postgres_program("initdb"));
        let initdb = as_postgres(&mut initdb, Kind::Postgres);
        initdb.current_dir("/").arg("-D").arg(&data);
        succeeds(initdb.args(["-U", "postgres", "--auth=trust", "--no-sync", "--locale=C"]));
    }

    /// Kills all its processes at the same time, as a power failure does.
    pub(crate) fn kill(&mut self) {
        let children = self.children();
        self.process.kill();
        send("KILL", &children);
    }

    /// Suspends it: it keeps its connections and does not respond.
    pub(crate) fn freeze(&self) {
        self.process.freeze();
        send("STOP", &self.children());
    }

    pub(crate) fn thaw(&self) {
        self.process.thaw();
        send("CONT", &self.children());
    }

    /// Keeps its files from growing, as on a full disk, until it is called with `false`.
    pub(crate) fn limit_files(&self, full: bool) {
        // The parent first, because new processes inherit its limits.
        self.process.id().iter().for_each(|pid| limit_files(&pid.to_string(), full));
        self.children().iter().for_each(|pid| limit_files(pid, full));
    }

    /// PostgreSQL has a process for each connection.
    fn children(&self) -> Vec<String> {
        let Some(pid) = self.process.id().filter(|_| self.kind == Kind::Postgres) else {
            return Vec::new();
        };
        let children = Command::new("ps").args(["-o", "pid=", "--ppid", &pid.to_string()]).output();
        let children = children.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        children.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    /// Sends one command of a line protocol (Redis, Memcached) and reads the first line of the
    /// answer.
    pub(crate) fn say(&self, command: &str) {
        let said = || {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.write_all(format!("{command}\r\n").as_bytes())?;
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line)?;
            Ok(line)
        };
        let line = said().unwrap_or_else(|error: std::io::Error| panic!("{command}: {error}"));
        assert!(line.starts_with("+OK"), "{command}: {line}");
    }

    /// Runs one statement in PostgreSQL.
    pub(crate) fn sql(&self, statement: &str) {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", self.port);
        succeeds(Command::new(postgres_program("psql")).args([&url, "-c", statement]));
    }

    /// Whether `etcdctl` succeeds.
    pub(crate) fn etcdctl(&self, arguments: &[&str]) -> bool {
        let mut command = Command::new("etcdctl");
        command.args(["--endpoints", &format!("127.0.0.1:{}", self.port)]).args(arguments);
        silent(command.env("ETCDCTL_API", "3"))
    }

    /// The newest revision of etcd.
    pub(crate) fn revision(&self) -> String {
        let mut command = Command::new("etcdctl");
        command.args(["--endpoints", &format!("127.0.0.1:{}", self.port)]);
        let output = command.env("ETCDCTL_API", "3").args(["get", "none", "-w", "json"]).output();
        let json = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let json = json.unwrap_or_default();
        let number = json.split_once("\"revision\":").map_or("", |(_, rest)| rest);
        number.chars().take_while(char::is_ascii_digit).collect()
    }
}

impl Drop for Server {
    /// PostgreSQL is shut down in order, so that it leaves no shared memory behind.
    fn drop(&mut self) {
        if self.kind == Kind::Postgres && self.process.ended().is_none() {
            self.thaw();
            self.process.signal("QUIT");
            eventually("postgres stops", || self.process.ended().is_some());
        }
    }
}

/// Keeps the files of a process from growing, or lets them grow again.
pub(crate) fn limit_files(pid: &str, full: bool) {
    let size = if full { "--fsize=4096:unlimited" } else { "--fsize=unlimited:unlimited" };
    // A process of PostgreSQL may have ended by now.
    silent(Command::new("prlimit").args(["--pid", pid, size]));
}

/// PostgreSQL refuses to run as root.
fn as_postgres(command: &mut Command, kind: Kind) -> &mut Command {
    if kind == Kind::Postgres && is_root() {
        let program = command.get_program().to_owned();
        let directory = command.get_current_dir().map(ToOwned::to_owned);
        *command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
        command.current_dir(directory.unwrap_or_else(|| "/".into()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    command
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n")
}

/// The path of a program of the newest PostgreSQL: Debian keeps these programs out of the PATH.
pub(crate) fn postgres_program(program: &str) -> String {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.filter_map(|dir| dir.file_name().to_str()?.parse::<u32>().ok()).max();
    newest.map_or_else(
        || program.to_owned(),
        |version| format!("/usr/lib/postgresql/{version}/bin/{program}"),
    )
}

fn send(signal: &str, pids: &[String]) {
    if !pids.is_empty() {
        silent(Command::new("kill").args(["-s", signal]).args(pids));
    }
}

fn silent(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn succeeds(command: &mut Command) {
    assert!(silent(command), "{command:?} failed");
}
