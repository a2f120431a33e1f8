//! One `etcd`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tollgate_testservers::{Certificates, Process, eventually, free_port};

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) port: u16,
    pub(super) peer: u16,
    process: Process,
    data: Data,
    name: String,
    scheme: &'static str,
    cluster: String,
    args: Vec<String>,
    /// The arguments for `etcdctl`.
    ctl: Vec<String>,
}

impl Member {
    /// A cluster of one, with additional arguments.
    pub(crate) fn start(args: &[&str]) -> Member {
        let mut member = Member::new(0);
        member.args.extend(args.iter().map(ToString::to_string));
        member.alone();
        member
    }

    /// A cluster of one that accepts only TLS, with client certificates.
    pub(crate) fn start_tls(certificates: &Certificates) -> Member {
        let mut member = Member::new(0);
        member.scheme = "https";
        let file = |name| certificates.name(name);
        for (option, name) in [
            ("--cert-file", "server.crt"),
            ("--key-file", "server.key"),
            ("--trusted-ca-file", "ca.crt"),
        ] {
            member.args.extend([option.to_owned(), file(name)]);
        }
        member.args.push("--client-cert-auth".into());
        for (option, name) in
            [("--cacert", "ca.crt"), ("--cert", "client.crt"), ("--key", "client.key")]
        {
            member.ctl.extend([option.to_owned(), file(name)]);
        }
        member.alone();
        member
    }

    /// A cluster of one with users. `alice` may read and write keys that begin with `tollgate/`.
    pub(crate) fn start_with_users(args: &[&str]) -> Member {
        let mut member = Member::start(args);
        member.ctl(&["user", "add", "root:root"]);
        member.ctl(&["user", "grant-role", "root", "root"]);
        member.ctl(&["role", "add", "limits"]);
        member.ctl(&[
            "role",
            "grant-permission",
            "--prefix=true",
            "limits",
            "readwrite",
            "tollgate/",
        ]);
        member.ctl(&["user", "add", "alice:open sesame"]);
        member.ctl(&["user", "grant-role", "alice", "limits"]);
        member.ctl(&["auth", "enable"]);
        member.ctl = vec!["--user".into(), "root:root".into()];
        member
    }

    /// A member that is not started, and in no cluster yet.
    pub(super) fn new(number: usize) -> Member {
        let process = Process::new("etcd", "etcd-server");
        // The tests need this program too, and are skipped without it.
        drop(Process::new("etcdctl", "etcd-client"));
        let data = Data::new(process.dir());
        let name = format!("member{number}");
        let (port, peer) = (free_port(), free_port());
        let (args, ctl) = (Vec::new(), Vec::new());
        Member {
            port,
            peer,
            process,
            data,
            name,
            scheme: "http",
            cluster: String::new(),
            args,
            ctl,
        }
    }

    /// The name and address of the member, for other members.
    pub(super) fn known_as(&self) -> String {
        format!("{}=http://127.0.0.1:{}", self.name, self.peer)
    }

    fn alone(&mut self) {
        self.join(self.known_as());
        self.answers();
    }

    /// Starts it in a cluster of these members.
    pub(super) fn join(&mut self, cluster: String) {
        self.cluster = cluster;
        self.launch();
    }

    fn launch(&mut self) {
        let client = format!("{}://127.0.0.1:{}", self.scheme, self.port);
        let peer = format!("http://127.0.0.1:{}", self.peer);
        self.process.start(|command| {
            command.args(["--name", &self.name, "--data-dir"]).arg(&self.data.0);
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            command.args(["--initial-cluster", &self.cluster, "--bcrypt-cost", "4"]);
            command.args(["--log-level", "error"]).args(&self.args);
        });
    }

    /// Starts it again with its data.
    pub(crate) fn restart(&mut self) {
        self.launch();
        self.answers();
    }

    /// Starts it again without its data.
    pub(crate) fn restart_empty(&mut self) {
        self.process.kill();
        self.data.empty();
        self.restart();
    }

    pub(super) fn answers(&self) {
        eventually("a member answers", || self.run_ctl(&["endpoint", "health"]).status.success());
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.scheme == "https" { "etcds" } else { "etcd" };
        format!("{scheme}://{}", self.address())
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The output of `etcdctl`, which must succeed.
    pub(crate) fn ctl(&self, args: &[&str]) -> String {
        let output = self.run_ctl(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "etcdctl {args:?}: {error}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Whether `etcdctl` succeeds.
    pub(crate) fn try_ctl(&self, args: &[&str]) -> bool {
        self.run_ctl(args).status.success()
    }

    /// The same as [`ctl`](Member::ctl) while no login is needed.
    pub(crate) fn run_without_user(&self, args: &[&str]) {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.address()]).args(args);
        let output = command.output().unwrap_or_else(|error| panic!("etcdctl: {error}"));
        assert!(output.status.success(), "etcdctl {args:?}");
    }

    fn run_ctl(&self, args: &[&str]) -> Output {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.address()]);
        let output = command.args(&self.ctl).args(args).output();
        output.unwrap_or_else(|error| panic!("etcdctl: {error}"))
    }

    /// The output of `endpoint status`, column by column.
    pub(crate) fn status(&self) -> Vec<String> {
        let line = self.ctl(&["endpoint", "status"]);
        line.split(", ").map(ToOwned::to_owned).collect()
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.status().get(4).is_some_and(|leader| leader == "true")
    }

    /// The newest revision.
    pub(crate) fn revision(&self) -> u64 {
        let json = self.ctl(&["get", "none", "-w", "json"]);
        let number = json.split_once("\"revision\":").map(|(_, rest)| rest);
        let number = number.and_then(|rest| rest.split([',', '}']).next());
        number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{json}"))
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
}

/// The data directory of a member, in memory where possible, because this etcd has no option to not
/// wait for the disk.
#[derive(Debug)]
struct Data(PathBuf);

impl Data {
    fn new(dir: &Path) -> Data {
        let memory = Path::new("/dev/shm");
        let name = dir.file_name().filter(|_| memory.is_dir());
        Data(name.map_or_else(|| dir.join("data"), |name| memory.join(name)))
    }

    fn empty(&self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        self.empty();
    }
}
