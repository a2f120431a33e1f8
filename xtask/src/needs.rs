//! Installs the programs that the tasks need.

use std::process::Command;

use crate::command::{cargo, is_installed, output, run};
use crate::outcome::{Outcome, because};

/// Task, program that it calls (or a command that works if the package is installed), and the
/// Debian package of the program. A linker is not among them: this program was linked with it.
const NEEDS: &[(&str, &str, &str)] = &[
    // `ps` and `kill`, which small images lack.
    ("test", "ps", "procps"),
    ("test", "redis-server", "redis-server"),
    ("test", "redis-sentinel", "redis-sentinel"),
    ("test", "redis-cli", "redis-tools"),
    ("test", "memcached", "memcached"),
    ("test", "etcd", "etcd-server"),
    ("test", "etcdctl", "etcd-client"),
    // `psql` is in the client package too; `pg_ctlcluster` comes only with the server.
    ("test", "pg_ctlcluster", "postgresql"),
    ("test", "pgbouncer", "pgbouncer"),
    ("test", "nats-server", "nats-server"),
    ("test", "nginx", "nginx-light"),
    ("test", "haproxy", "haproxy"),
    ("test", "chromium", "chromium"),
    ("test", "python3 -m ensurepip", "python3-venv"),
    ("test", "node", "nodejs"),
    ("test", "npm", "npm"),
    ("test", "curl", "curl"),
    ("bench redis", "redis-server", "redis-server"),
    ("bench redis", "redis-benchmark", "redis-tools"),
    ("bench http", "wrk", "wrk"),
    ("bench http", "valgrind", "valgrind"),
    ("bench server", "redis-server", "redis-server"),
    ("bench server", "redis-benchmark", "redis-tools"),
    ("bench server", "wrk", "wrk"),
    ("bench server", "h2load", "nghttp2-client"),
    ("bench stores", "redis-server", "redis-server"),
    ("bench cluster", "redis-server", "redis-server"),
    ("bench stores", "memcached", "memcached"),
    ("bench stores", "etcd", "etcd-server"),
    ("bench stores", "pg_ctlcluster", "postgresql"),
    ("bench python", "redis-server", "redis-server"),
    ("bench python", "python3 -m ensurepip", "python3-venv"),
    ("bench python", "wrk", "wrk"),
    ("bench node", "redis-server", "redis-server"),
    ("bench node", "node", "nodejs"),
    ("bench node", "npm", "npm"),
    ("bench instructions", "valgrind", "valgrind"),
    ("fuzz", "c++", "g++"),
];

/// Installs the packages that a task needs. Calls the package manager only if a program is missing.
pub(crate) fn install_for(task: &str) -> Outcome {
    let packages = missing(task, works);
    if packages.is_empty() {
        println!("nothing to install");
        return Ok(());
    }
    if !is_installed("apt-get") {
        return because(format!("there is no apt-get to install {} with", packages.join(", ")));
    }
    run(apt_get().arg("update"))?;
    run(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(packages))
}

/// Whether a program is installed, or a whole command works.
fn works(program: &str) -> bool {
    let mut words = program.split(' ');
    let first = words.next().unwrap_or_default();
    let arguments: Vec<_> = words.chain(["--version"]).collect();
    is_installed(first) && (arguments.len() == 1 || output(first, &arguments).is_some())
}

/// Checks for a component of the active toolchain by its cargo subcommand.
pub(crate) fn component(name: &str, subcommand: &str) -> Outcome {
    if output("cargo", &[subcommand, "--version"]).is_some() {
        return Ok(());
    }
    println!("{name} is missing");
    if is_installed("rustup")
        && run(Command::new("rustup").args(["component", "add", name])).is_ok()
    {
        return Ok(());
    }
    because(format!("{name} is not installed: `rustup component add {name}`"))
}

/// Installs a cargo subcommand that is a package of its own.
pub(crate) fn subcommand(name: &str) -> Outcome {
    if output("cargo", &[name, "--version"]).is_some() {
        return Ok(());
    }
    println!("cargo-{name} is missing; installing it");
    run(cargo(["install", "--locked"]).arg(format!("cargo-{name}")))
}

/// The output of `rustc -vV` of the nightly toolchain.
pub(crate) fn nightly() -> Outcome<String> {
    match output("rustup", &["run", "nightly", "rustc", "-vV"]) {
        Some(version) => Ok(version),
        None => because("there is no nightly toolchain: `rustup toolchain install nightly`"),
    }
}

fn missing(task: &str, is_installed: impl Fn(&str) -> bool) -> Vec<&'static str> {
    NEEDS
        .iter()
        .filter(|(needed_by, program, _)| *needed_by == task && !is_installed(program))
        .map(|(_, _, package)| *package)
        .collect()
}

fn apt_get() -> Command {
    let is_root = output("id", &["-u"]).is_some_and(|id| id.trim() == "0");
    // Sets the variable with `env`, because sudo does not pass variables on.
    let mut words = vec!["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    if !is_root {
        words.insert(0, "sudo");
    }
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::workspace;

    #[test]
    fn only_what_is_missing_is_installed() {
        assert_eq!(missing("fuzz", |_| true), Vec::<&str>::new());
        assert_eq!(missing("fuzz", |program| program != "c++"), ["g++"]);
    }

    /// Programs that every Debian has, or that come with Rust.
    const ALWAYS_THERE: &[&str] =
        &["sh", "bash", "cp", "chmod", "chown", "id", "setpriv", "prlimit", "script", "cargo"];

    /// Programs that tests use only if they are installed.
    const OPTIONAL: &[&str] = &["systemd-analyze"];

    #[test]
    fn every_program_that_tests_start_by_its_name_is_installed() {
        // `kill` is in the same package as `ps`.
        let with = |program: &str| if program == "kill" { "ps" } else { program }.to_owned();
        let mut started = Vec::new();
        for (_, path) in workspace::crates() {
            collect(&path.join("tests"), &mut started);
            if path.ends_with("tollgate-testservers") {
                collect(&path.join("src"), &mut started);
            }
        }
        assert!(started.iter().any(|program| program == "nginx"), "{started:?}");
        for program in started.iter().map(|program| with(program)) {
            let is_listed = NEEDS.iter().any(|(task, known, _)| {
                *task == "test" && known.split(' ').next() == Some(&program)
            });
            let is_there = ALWAYS_THERE.contains(&&*program) || OPTIONAL.contains(&&*program);
            assert!(
                is_listed || is_there,
                "`{program}` is started by a test, and nobody installs it"
            );
        }
    }

    /// The string arguments of `Command::new(` and `Process::new(` in all files below a directory.
    fn collect(directory: &Path, into: &mut Vec<String>) {
        for path in workspace::entries(directory) {
            if path.is_dir() {
                collect(&path, into);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                // The part before the first call starts nothing.
                let starts = |call| text.split(call).skip(1);
                let starts = starts("Command::new(").chain(starts("Process::new("));
                let named = starts.filter_map(|rest| rest.strip_prefix('"')?.split('"').next());
                into.extend(named.map(str::to_owned));
            }
        }
    }
}
