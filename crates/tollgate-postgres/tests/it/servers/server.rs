//! One PostgreSQL server.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use super::{Process, eventually, free_port};

/// The settings of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    /// Further settings, as `name=value`.
    pub(crate) settings: Vec<String>,
    /// The file that controls access.
    pub(crate) access: Option<String>,
    /// Files for the data directory, readable only by the server.
    pub(crate) files: Vec<(PathBuf, &'static str)>,
    /// The size beyond which its files cannot grow.
    pub(crate) largest_file: Option<u64>,
}

/// A server with its own data, stopped and deleted when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    pub(crate) port: u16,
    settings: Vec<String>,
    largest_file: Option<u64>,
}

impl Server {
    pub(crate) fn start() -> Server {
        Server::shaped(&Shape::default())
    }

    pub(crate) fn shaped(shape: &Shape) -> Server {
        let process = Process::new(program(), "postgresql");
        let Shape { settings, largest_file, .. } = shape.clone();
        let server = Server { process, port: free_port(), settings, largest_file };
        let data = server.data();
        run(Command::new("cp").arg("-a").arg(template()).arg(&data));
        if let Some(access) = &shape.access {
            std::fs::write(data.join("pg_hba.conf"), access).unwrap();
        }
        for (file, name) in &shape.files {
            std::fs::copy(file, data.join(name)).unwrap();
            run(Command::new("chmod").arg("600").arg(data.join(name)));
        }
        own(&data);
        let mut server = server;
        server.run();
        server
    }

    /// The directory of its data.
    pub(crate) fn data(&self) -> PathBuf {
        self.process.dir().join("data")
    }

    pub(crate) fn url(&self) -> String {
        self.url_for("postgres", "postgres")
    }

    pub(crate) fn url_for(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// Starts it with the existing data, once earlier processes have released them.
    pub(crate) fn run(&mut self) {
        let (data, port) = (self.data(), self.port.to_string());
        let settings = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "shared_buffers=16MB",
            "fsync=off",
        ];
        let settings: Vec<String> =
            settings.iter().map(ToString::to_string).chain(self.settings.clone()).collect();
        let pid_file = data.join("postmaster.pid");
        let mut arguments = unprivileged(bin("postgres"));
        if let Some(bytes) = self.largest_file {
            let limit = ["prlimit".to_owned(), format!("--fsize={bytes}")];
            let program = arguments.len() - 1;
            arguments.splice(program..program, limit);
        }
        eventually("the server takes its data", || {
            let _ = std::fs::remove_file(&pid_file);
            self.process.start(|command| {
                command.args(arguments.iter().skip(1));
                command.arg("-D").arg(&data).args(["-p", &port]);
                for setting in &settings {
                    command.args(["-c", setting]);
                }
            });
            // The last line of the file says whether the server accepts connections.
            eventually("the server starts or ends", || {
                let says = std::fs::read_to_string(&pid_file).unwrap_or_default();
                says.contains("ready") || !self.is_running()
            });
            self.is_running()
        });
    }

    fn is_running(&mut self) -> bool {
        self.process.id().is_some() && self.process.ended().is_none()
    }

    /// Kills it as a power failure does.
    pub(crate) fn kill(&mut self) {
        let children = self.children();
        self.process.kill();
        signal("KILL", &children);
    }

    /// Stops it as an operator does, with a fast shutdown.
    pub(crate) fn stop(&mut self) {
        self.process.signal("INT");
        self.gone();
        self.process.kill();
    }

    /// All its processes keep their connections and do not answer.
    pub(crate) fn freeze(&self) {
        self.signal_all("STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal_all("CONT");
    }

    fn signal_all(&self, name: &str) {
        let Some(pid) = self.process.id() else { return };
        signal(name, &[vec![pid.to_string()], self.children()].concat());
    }

    /// The processes of the server beside the first.
    fn children(&self) -> Vec<String> {
        let Some(pid) = self.process.id() else { return Vec::new() };
        let children = Command::new("ps").args(["-o", "pid=", "--ppid", &pid.to_string()]).output();
        let children = String::from_utf8(children.unwrap().stdout).unwrap();
        children.split_whitespace().map(str::to_owned).collect()
    }

    fn gone(&mut self) {
        eventually("the server stops", || !self.is_running());
    }
}

impl Drop for Server {
    /// Stops the server immediately, but so that it leaves no shared memory behind.
    fn drop(&mut self) {
        if self.is_running() {
            self.thaw();
            self.process.signal("QUIT");
            self.gone();
        }
    }
}

/// Sends a signal to processes, of which some may be gone by now.
fn signal(name: &str, pids: &[String]) {
    let _ = Command::new("kill").args(["-s", name]).args(pids).stderr(Stdio::null()).status();
}

/// The path of a program of the server, of the newest installed version.
pub(crate) fn bin(program: &str) -> String {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.filter_map(|dir| dir.file_name().to_str()?.parse::<u32>().ok()).max();
    match newest {
        Some(version) => format!("/usr/lib/postgresql/{version}/bin/{program}"),
        None => program.to_owned(),
    }
}

/// The executable to start: `setpriv` if this user is root, because the server refuses to be root.
fn program() -> String {
    // A missing server must be reported, not only a missing `setpriv`.
    drop(Process::new(bin("postgres"), "postgresql"));
    unprivileged(bin("postgres")).swap_remove(0)
}

/// The command line that runs a program, as another user if this one is root.
pub(crate) fn unprivileged(program: String) -> Vec<String> {
    if is_root() {
        let setpriv = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"];
        setpriv.iter().map(ToString::to_string).chain([program]).collect()
    } else {
        vec![program]
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}

pub(crate) fn own(path: &Path) {
    if is_root() {
        run(Command::new("chown").arg("-R").arg("postgres:postgres").arg(path));
    }
}

fn run(command: &mut Command) {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(matches!(&status, Ok(status) if status.success()), "{command:?}: {status:?}");
}

/// Data of a new server, made once.
fn template() -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let version = bin("").replace('/', "-");
    let template = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("data{version}"));
    if !template.exists() {
        let making = tollgate_testservers::Directory::new();
        own(making.path());
        let data = making.path().join("data");
        let whole = unprivileged(bin("initdb"));
        let mut initdb = Command::new(&whole[0]);
        initdb.args(&whole[1..]).arg("-D").arg(&data).current_dir("/");
        initdb.args([
            "-U",
            "postgres",
            "--auth=trust",
            "--no-sync",
            "--wal-segsize=1",
            "--locale=C",
            "-E",
            "UTF8",
        ]);
        run(&mut initdb);
        // Another process may have been faster.
        let part = template.with_extension(std::process::id().to_string());
        run(Command::new("cp").arg("-a").arg(&data).arg(&part));
        if std::fs::rename(&part, &template).is_err() {
            let _ = std::fs::remove_dir_all(&part);
        }
    }
    template
}
