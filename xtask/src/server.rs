//! Servers for the examples.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::command::{output, run};
use crate::outcome::{Outcome, because};

/// One server of each kind on free ports of the loopback. Drop stops them and deletes their files.
pub(crate) struct Servers {
    children: Vec<Child>,
    dir: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl Servers {
    pub(crate) fn start() -> Outcome<Servers> {
        let dir = std::env::temp_dir().join(format!("tollgate-examples-{}", std::process::id()));
        let mut servers = Servers { children: Vec::new(), dir, variables: Vec::new() };
        if let Err(error) = std::fs::create_dir_all(&servers.dir) {
            return because(format!("{}: {error}", servers.dir.display()));
        }
        servers.redis()?;
        servers.memcached()?;
        servers.etcd()?;
        servers.postgres()?;
        let file = servers.dir.join("limits").display().to_string();
        servers.variables.push(("DURABLE_PATH", file));
        Ok(servers)
    }

    /// Environment variables in which the examples find the servers.
    pub(crate) fn variables(&self) -> &[(&'static str, String)] {
        &self.variables
    }

    fn redis(&mut self) -> Outcome {
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()]);
        self.begin(command, port, "REDIS_URL", format!("redis://127.0.0.1:{port}/"))
    }

    fn memcached(&mut self) -> Outcome {
        let port = free_port()?;
        let mut command = Command::new("memcached");
        command.args(["-u", "nobody", "-l", "127.0.0.1", "-p", &port.to_string()]);
        self.begin(command, port, "MEMCACHED_URL", format!("memcached://127.0.0.1:{port}"))
    }

    fn etcd(&mut self) -> Outcome {
        let (port, peers) = (free_port()?, free_port()?);
        let (clients, peers) =
            (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peers}"));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(self.dir.join("etcd"));
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("default={peers}"), "--log-level", "error"]);
        self.begin(command, port, "ETCD_URL", format!("etcd://127.0.0.1:{port}"))
    }

    fn postgres(&mut self) -> Outcome {
        let Some(bin) = postgres_programs() else {
            return because("PostgreSQL's initdb is not below /usr/lib/postgresql");
        };
        let (port, data) = (free_port()?, self.dir.join("postgres"));
        // PostgreSQL refuses to run as root, so root starts it as the user of the package.
        let as_whom: &[&str] =
            if is_root() { &["runuser", "-u", "postgres", "--"] } else { &["env"] };
        if is_root() {
            run(Command::new("chmod").arg("755").arg(&self.dir))?;
            run(Command::new("install").args(["-d", "-o", "postgres"]).arg(&data))?;
        }
        let of = |program: &str| {
            let mut command = Command::new(as_whom[0]);
            command.args(&as_whom[1..]).arg(bin.join(program)).arg("-D").arg(&data);
            command.current_dir(&self.dir).stdout(Stdio::null());
            command
        };
        run(of("initdb").args(["--auth", "trust", "--username", "postgres", "--no-sync"]))?;
        let mut command = of("postgres");
        command.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        command.args(["-c", "unix_socket_directories=", "-c", "fsync=off"]);
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        self.begin(command, port, "POSTGRES_URL", url)
    }

    /// Starts a server and waits until it listens.
    fn begin(
        &mut self,
        mut command: Command,
        port: u16,
        variable: &'static str,
        url: String,
    ) -> Outcome {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => return because(format!("{program} did not start: {error}")),
        };
        listening(&mut child, port, &program)?;
        self.children.push(child);
        self.variables.push((variable, url));
        Ok(())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // SIGTERM, because PostgreSQL has child processes and stops them itself.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Waits until a server listens.
pub(crate) fn listening(server: &mut Child, port: u16, program: &str) -> Outcome {
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Ok(Some(status)) = server.try_wait() {
            return because(format!("{program} ended with {status}"));
        }
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    Ok(())
}

pub(crate) fn free_port() -> Outcome<u16> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
    port.map_or_else(
        |error| because(format!("no free port: {error}")),
        |address| Ok(address.port()),
    )
}

fn is_root() -> bool {
    output("id", &["-u"]).is_some_and(|id| id.trim() == "0")
}

/// The directory in which Debian has the programs of the newest PostgreSQL that is installed.
fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(Path::new("/usr/lib/postgresql")).ok()?;
    let mut versions: Vec<_> =
        versions.filter_map(Result::ok).map(|entry| entry.path().join("bin")).collect();
    versions.sort();
    versions.into_iter().rev().find(|bin| bin.join("initdb").exists())
}
