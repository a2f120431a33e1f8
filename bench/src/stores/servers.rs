//! The servers, each in a separate process on a free port of the loopback, with its defaults. They
//! keep their data in memory if possible: a disk would make all contenders of a store equally slow,
//! and hide their own costs.

use crate::Outcome;
use crate::redis::server::Server as Redis;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tollgate_testservers::{Directory, Process, eventually, free_port};

/// Stopped when dropped.
pub(crate) struct Servers {
    pub(crate) redis: Redis,
    pub(crate) memcached: u16,
    pub(crate) etcd: u16,
    pub(crate) postgres: Postgres,
    _processes: [Process; 2],
    data: Data,
    /// The directory of the durable store, on a real disk.
    directory: Directory,
}

impl Servers {
    pub(crate) fn start() -> Outcome<Servers> {
        let (directory, data) = (Directory::new(), Data::new()?);
        let (memcached, etcd, peer) = (free_port(), free_port(), free_port());
        let mut memory = Process::new("memcached", "memcached");
        memory.start(|command| {
            // As root it runs only with this option; other users ignore it.
            command.args(["-u", "root", "-U", "0", "-l", "127.0.0.1"]);
            command.args(["-p", &memcached.to_string()]);
        });
        let mut member = Process::new("etcd", "etcd-server");
        let [client, peer] = [etcd, peer].map(|port| format!("http://127.0.0.1:{port}"));
        member.start(|command| {
            command.arg("--data-dir").arg(data.0.join("etcd")).args(["--log-level", "error"]);
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            command.args(["--initial-cluster", &format!("default={peer}")]);
        });
        let postgres = Postgres::start(&data.0.join("postgres"))?;
        for (name, port) in [("memcached", memcached), ("etcd", etcd)] {
            eventually(name, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        }
        let _processes = [memory, member];
        Ok(Servers {
            redis: Redis::start(),
            memcached,
            etcd,
            postgres,
            _processes,
            data,
            directory,
        })
    }

    /// A directory for files of this process.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn versions(&self) -> Vec<String> {
        let said = |program: &str| {
            let output = Command::new(program).arg("--version").output();
            let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            text.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
        };
        let redis = self.redis.version().unwrap_or_default();
        let place = if self.data.is_memory() { "in memory" } else { "on a disk" };
        vec![
            format!("Redis {redis}"),
            said("memcached"),
            said(&bin("postgres")),
            said("etcd"),
            format!("data of the servers {place}"),
        ]
    }
}

/// A directory for the data of servers.
struct Data(PathBuf);

const MEMORY: &str = "/dev/shm";

impl Data {
    fn new() -> Outcome<Data> {
        let memory = Some(PathBuf::from(MEMORY)).filter(|memory| memory.is_dir());
        let root = memory.unwrap_or_else(std::env::temp_dir);
        let data = root.join(format!("tollgate-bench-{}", std::process::id()));
        std::fs::create_dir_all(&data)?;
        Ok(Data(data))
    }

    fn is_memory(&self) -> bool {
        self.0.starts_with(MEMORY)
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// It refuses to run as root, and stops its own processes only when asked.
pub(crate) struct Postgres {
    process: Process,
    port: u16,
}

impl Postgres {
    fn start(data: &Path) -> Outcome<Postgres> {
        std::fs::create_dir(data)?;
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            run(Command::new("chown").arg("postgres:postgres").arg(data))?;
        }
        let become_it = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"];
        let words = |program: &str| -> Vec<String> {
            let become_it = become_it.iter().filter(|_| is_root).map(ToString::to_string);
            become_it.chain([bin(program)]).collect()
        };
        let initdb = words("initdb");
        let mut command = Command::new(&initdb[0]);
        command.args(&initdb[1..]).current_dir("/").arg("-D").arg(data);
        run(command.args(["-U", "postgres", "--auth=trust", "--no-sync", "--locale=C"]))?;
        let (port, server) = (free_port(), words("postgres"));
        let mut process = Process::new(server[0].clone(), "postgresql");
        process.start(|command| {
            command.args(&server[1..]).arg("-D").arg(data).args(["-p", &port.to_string()]);
            command.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        });
        // The last line of the file says whether the server accepts connections.
        let state = data.join("postmaster.pid");
        eventually("postgres takes connections", || {
            std::fs::read_to_string(&state).is_ok_and(|state| state.contains("ready"))
        });
        Ok(Postgres { process, port })
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.process.ended().is_none() {
            self.process.signal("QUIT");
            eventually("postgres stops", || self.process.ended().is_some());
        }
    }
}

/// The path of a program of the newest PostgreSQL: Debian keeps these out of the PATH.
fn bin(program: &str) -> String {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.filter_map(|dir| dir.file_name().to_str()?.parse::<u32>().ok()).max();
    newest.map_or_else(
        || program.to_owned(),
        |version| format!("/usr/lib/postgresql/{version}/bin/{program}"),
    )
}

fn run(command: &mut Command) -> Outcome<()> {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status.map_err(|error| format!("{command:?}: {error}"))? {
        status if status.success() => Ok(()),
        status => Err(format!("{command:?}: {status}").into()),
    }
}
