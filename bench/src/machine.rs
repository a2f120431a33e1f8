//! The machine and the versions of a run.

use crate::arguments::repository;
use std::process::Command;

/// The facts that a reader needs to judge the figures.
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) processor: String,
    pub(crate) compiler: String,
    /// Each crate with its version.
    pub(crate) versions: Vec<String>,
    pub(crate) command: String,
}

impl Machine {
    /// `packages` are the crates whose versions matter.
    pub(crate) fn look(packages: &[&str]) -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let lock =
            std::fs::read_to_string(repository().join("bench/Cargo.lock")).unwrap_or_default();
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        Self {
            date: said("date", &["-u", "+%F"]),
            processor: format!("{}, {cores} cores", model()),
            compiler: said("rustc", &["--version"]),
            versions: packages
                .iter()
                .map(|name| format!("{name} {}", version(&lock, name).unwrap_or("unknown")))
                .collect(),
            command: format!("cargo xtask bench {}", arguments.join(" ")),
        }
    }
}

/// The output of a program, or `unknown`: a missing program must not spoil a long run.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

fn model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "unknown processor".to_owned(), |(_, name)| name.trim().to_owned())
}

/// The version of a package in the text of a Cargo.lock.
fn version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_the_lock_file() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.2.3\"\n\n[[package]]\nname = \"ab\"\nversion = \"4\"\n";
        assert_eq!(version(lock, "a"), Some("1.2.3"));
        assert_eq!(version(lock, "ab"), Some("4"));
        assert_eq!(version(lock, "b"), None);
    }
}
