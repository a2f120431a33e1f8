//! The servers, each in a separate process on free ports of the loopback.

use super::contenders::{ON_REDIS, REDIS, THROTTLECRAB, TOLLGATE};
use crate::Outcome;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How to have the other server measured.
pub(crate) const WHERE_THROTTLECRAB: &str = "SKIPPED: throttlecrab-server is not installed: \
    `cargo install throttlecrab-server` (it needs protoc), in the PATH or named by THROTTLECRAB_SERVER";

/// Killed when dropped.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    version: String,
    pub(crate) resp: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    /// The dashboard; only tollgate has one.
    pub(crate) admin: SocketAddr,
    child: Child,
}

pub(crate) struct Servers(Vec<Server>);

impl Servers {
    pub(crate) fn start() -> Outcome<Servers> {
        let redis = redis()?;
        let shared = format!("redis://{}", redis.resp);
        let mut servers = vec![tollgate(TOLLGATE, "memory:")?, tollgate(ON_REDIS, &shared)?, redis];
        servers.extend(throttlecrab()?);
        Ok(Servers(servers))
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Server> {
        self.iter().find(|server| server.name == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Server> {
        self.0.iter()
    }

    pub(crate) fn versions(&self) -> impl Iterator<Item = String> {
        self.iter()
            .filter(|server| ![TOLLGATE, ON_REDIS].contains(&server.name))
            .map(|server| server.version.clone())
    }
}

/// The binary beside this one: `cargo xtask bench server` has built it.
fn tollgate(name: &'static str, store: &str) -> Outcome<Server> {
    let program = std::env::current_exe()?.with_file_name("tollgate");
    if !program.exists() {
        return Err(format!(
            "{}: is missing; `cargo build --release -p tollgate-server`",
            program.display()
        )
        .into());
    }
    // The deadline is far: a busy machine must end no call.
    let config = std::env::temp_dir().join(format!("tollgate-bench-{}.toml", std::process::id()));
    std::fs::write(&config, "[store]\ndeadline = \"2s\"\n")?;
    let server = Server::start(name, &program, |command, [resp, http, grpc, admin]| {
        command.args(["serve", "--store", store, "--config"]).arg(&config);
        for (name, address) in
            [("--resp", resp), ("--http", http), ("--grpc", grpc), ("--admin", admin)]
        {
            command.args([name, &address.to_string()]);
        }
    });
    std::fs::remove_file(config)?;
    server
}

fn redis() -> Outcome<Server> {
    Server::start(REDIS, Path::new("redis-server"), |command, [resp, ..]| {
        command.args(["--port", &resp.port().to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no", "--maxclients", "15000"]);
    })
}

/// `None` if it is not installed.
fn throttlecrab() -> Outcome<Option<Server>> {
    let program = std::env::var_os("THROTTLECRAB_SERVER");
    let program = program.map_or_else(|| PathBuf::from("throttlecrab-server"), PathBuf::from);
    if said(&program, "--version").is_none() {
        return Ok(None);
    }
    let server = Server::start(THROTTLECRAB, &program, |command, addresses| {
        for (name, address) in ["redis", "http", "grpc"].into_iter().zip(addresses) {
            command.arg(format!("--{name}"));
            command.args([format!("--{name}-host"), address.ip().to_string()]);
            command.args([format!("--{name}-port"), address.port().to_string()]);
        }
        command.args(["--log-level", "error"]);
    });
    server.map(Some)
}

impl Server {
    fn start(
        name: &'static str,
        program: &Path,
        arguments: impl FnOnce(&mut Command, [SocketAddr; 4]),
    ) -> Outcome<Server> {
        let version = said(program, "--version").unwrap_or_else(|| name.to_owned());
        let addresses = [free()?, free()?, free()?, free()?];
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        arguments(&mut command, addresses);
        let child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let [resp, http, grpc, admin] = addresses;
        let server = Server { name, version, resp, http, grpc, admin, child };
        let all = match name {
            REDIS => &addresses[..1],
            THROTTLECRAB => &addresses[..3],
            _ => &addresses[..],
        };
        for address in all {
            server.wait_for(*address)?;
        }
        Ok(server)
    }

    fn wait_for(&self, address: SocketAddr) -> Outcome<()> {
        for _ in 0..1_000 {
            if TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            rest(Duration::from_millis(10));
        }
        Err(format!("{}: does not listen on {address}", self.name).into())
    }

    /// CPU seconds so far, of all threads.
    pub(crate) fn cpu(&self) -> Outcome<f64> {
        let mut nanos = 0.0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            nanos += text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
        }
        Ok(nanos / 1e9)
    }

    /// Bytes in memory.
    pub(crate) fn resident(&self) -> Outcome<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(1024.0 * kilobytes.ok_or("the kernel does not tell the memory of a process")?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free() -> Outcome<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn said(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    // Redis appends its build.
    Some(text.split(" sha=").next().unwrap_or_default().to_owned())
}

/// Lets this process and its children have as many open files as the system allows.
pub(crate) fn many_files() -> Outcome<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

#[expect(clippy::disallowed_methods, reason = "another process must have the time to do something")]
pub(crate) fn rest(span: Duration) {
    std::thread::sleep(span);
}
