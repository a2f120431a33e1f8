//! Starts other programs and shows their output.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, ExitStatus, Stdio};

use crate::outcome::{Outcome, because};
use crate::workspace;

pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(workspace::root()).env("PATH", path());
    command
}

/// Cargo of another toolchain. Runs it through `rustup run`, because `cargo +name` works only where
/// cargo is rustup's.
pub(crate) fn cargo_of<const N: usize>(toolchain: &str, arguments: [&str; N]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", toolchain, "cargo"]).args(arguments).current_dir(workspace::root());
    command
}

/// Appends flags to a variable, so that flags of the caller's environment still count.
pub(crate) fn add_flags(command: &mut Command, variable: &str, flags: &str) {
    let flags = match std::env::var(variable) {
        Ok(theirs) if !theirs.is_empty() => format!("{theirs} {flags}"),
        _ => flags.to_owned(),
    };
    command.env(variable, flags);
}

pub(crate) fn run(command: &mut Command) -> Outcome {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => because(format!("`{}` ended with {status}", display(command))),
        Err(error) => because(format!("`{}` did not start: {error}", display(command))),
    }
}

/// Like [`run`], and passes every line of output to `listen`.
pub(crate) fn run_heard(command: &mut Command, listen: impl FnMut(&str)) -> Outcome {
    if io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let status = relay(command, &mut io::stdout().lock(), listen);
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => because(format!("`{}` ended with {status}", display(command))),
        Err(error) => because(format!("`{}`: {error}", display(command))),
    }
}

/// Reads both streams through one pipe, so that the lines keep their order.
fn relay(
    command: &mut Command,
    to: &mut impl Write,
    mut listen: impl FnMut(&str),
) -> io::Result<ExitStatus> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command still holds the writing ends. Until it drops them, the reader never sees the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());

    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        listen(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    child.wait()
}

/// The standard output of a program if it succeeded. Shows nothing.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(workspace::root())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(crate) fn is_installed(program: &str) -> bool {
    std::env::split_paths(&path()).any(|directory| directory.join(program).is_file())
}

/// The search path with `sbin`, where Debian has servers and which users' paths often lack.
fn path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    path
}

fn display(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Failure;

    #[test]
    fn every_line_of_both_streams_is_relayed_in_order() {
        let (mut shown, mut heard) = (Vec::new(), Vec::new());
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; printf three"]);
        relay(&mut command, &mut shown, |line| heard.push(line.to_owned())).unwrap();
        assert_eq!(heard, ["one", "two", "three"]);
        assert_eq!(shown, b"one\ntwo\nthree");
    }

    #[test]
    fn failing_program_is_named() {
        let mut command = Command::new("sh");
        let outcome = run_heard(command.args(["-c", "exit 3"]), |_| {});
        let Err(Failure::Because(reason)) = outcome else { panic!("must fail: {outcome:?}") };
        assert!(reason.contains("sh -c exit 3"), "{reason}");
    }
}
