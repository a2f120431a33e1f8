//! `tollgate replay` on the logs of real servers, and `tollgate simulate`.

mod command;
mod logs;
mod verdicts;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Exit code, output, errors of the program.
fn tollgate(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The JSON report of a replay of this log.
fn replay(log: &Path, arguments: &[&str]) -> Value {
    let log = log.display().to_string();
    let (code, out, error) = tollgate(&[&["replay", &log, "--json"], arguments].concat());
    assert_eq!(code, 0, "{error}");
    serde_json::from_str(&out).unwrap()
}

/// Requests with curl, from this address of the loopback, one after another.
fn curl(from: &str, urls: &[String]) -> Vec<u16> {
    let mut command = Command::new("curl");
    command.args(["-s", "--interface", from, "--max-time", "20", "-w", "%{http_code}\n"]);
    urls.iter().for_each(|url| {
        command.args(["-o", "/dev/null", url]);
    });
    let output = command.output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(|code| code.parse().unwrap()).collect()
}
