//! The clients in other languages: builds their packages, installs them into fresh environments, and
//! runs their tests there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{cargo, output, run, run_heard};
use crate::outcome::{Outcome, at_most, because};
use crate::server::Servers;
use crate::step::step;
use crate::tally::Tally;
use crate::workspace;

/// The number of random sequences that the conformance tests replay.
const SEQUENCES: &str = "200";

/// `cargo xtask clients`: the steps of `cargo xtask test` that are about clients.
pub(crate) fn clients(arguments: &[String]) -> Outcome {
    at_most(0, arguments)?;
    let mut tally = Tally::default();
    step("python", || python(&mut tally))?;
    step("typescript", || typescript(&mut tally))?;
    println!("\n{tally}");
    tally.verdict(false)
}

/// Builds the wheel and runs its tests. `servers` are the stores that the tests do not start
/// themselves.
pub(crate) fn python(tally: &mut Tally) -> Outcome {
    if output("python3", &["-m", "ensurepip", "--version"]).is_none() {
        return skip(tally, "python: python3 with venv is not installed");
    }
    let package = workspace::root().join("clients/python");
    let fresh = Python::fresh("test")?;
    fresh.pip(&["-r"], package.join("requirements-test.txt"))?;
    run(fresh.tool("ruff").args(["check", "--no-cache"]).arg(&package))?;
    run(fresh.tool("ruff").args(["format", "--check", "--no-cache"]).arg(&package))?;
    let wheel = fresh.wheel("dev")?;
    fresh.pip(&["--no-deps"], wheel)?;
    let interpreter = fresh.tool("python");
    let mut pyright = fresh.tool("pyright");
    pyright.arg("--pythonpath").arg(interpreter.get_program()).current_dir(&package);
    run(&mut pyright)?;

    let sequences = workspace::target_dir("clients").join("sequences.json");
    write_sequences(&sequences)?;
    let servers = Servers::start()?;
    let mut tests = fresh.tool("python");
    tests.args(["-m", "pytest", "-q"]).current_dir(&package);
    tests.env("TOLLGATE_SEQUENCES", sequences).env("TOLLGATE_NO_SKIP", "1");
    tests.env("TOLLGATE_BIN", server_program()?);
    tests.envs(servers.variables().iter().map(|(name, value)| (name, value)));
    run_heard(&mut tests, |line| tally.hear(line))
}

/// Builds the npm package, installs it, and runs its tests.
pub(crate) fn typescript(tally: &mut Tally) -> Outcome {
    if output("npm", &["--version"]).is_none() {
        return skip(tally, "typescript: npm is not installed");
    }
    // The tests use the package as it would be published, from a directory of its own.
    let fresh = fresh_directory("typescript")?;
    let packed = pack(&fresh)?;
    let package = workspace::root().join("clients/typescript");
    for file in workspace::entries(&package.join("tests")) {
        copy_into(&file, &fresh)?;
    }
    run(npm(&fresh).args(["ci", "--no-progress"]))?;
    run(npm(&fresh).args(["install", "--no-save", "--no-progress"]).arg(packed))?;
    let mut tests = npm(&fresh);
    tests.arg("test").env("TOLLGATE_BIN", server_program()?);
    run_heard(&mut tests, |line| tally.hear(line))
}

/// Builds the npm package as one file in an empty directory.
pub(crate) fn pack(into: &Path) -> Outcome<PathBuf> {
    let package = workspace::root().join("clients/typescript");
    run(npm(&package).args(["ci", "--no-progress"]))?;
    run(npm(&package).args(["run", "build"]))?;
    run(npm(&package).args(["pack", "--pack-destination"]).arg(into))?;
    only_file(into, ".tgz")
}

pub(crate) fn npm(directory: &Path) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(directory).env("npm_config_audit", "false").env("npm_config_fund", "false");
    command
}

pub(crate) fn copy_into(file: &Path, directory: &Path) -> Outcome {
    let Some(name) = file.file_name().filter(|_| file.is_file()) else { return Ok(()) };
    match std::fs::copy(file, directory.join(name)) {
        Ok(_) => Ok(()),
        Err(error) => because(format!("{}: {error}", file.display())),
    }
}

/// Says that the tests of a client are not run. In CI that is a failure.
fn skip(tally: &mut Tally, what: &str) -> Outcome {
    let line = format!("SKIPPED {what}");
    println!("{line}");
    tally.hear(&line);
    Ok(())
}

/// A virtual environment that did not exist before.
pub(crate) struct Python {
    directory: PathBuf,
}

impl Python {
    pub(crate) fn fresh(name: &str) -> Outcome<Python> {
        let directory = workspace::target_dir("clients").join(format!("python-{name}"));
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory))?;
        Ok(Python { directory })
    }

    pub(crate) fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.directory.join("bin").join(name));
        command.current_dir(workspace::root());
        command
    }

    pub(crate) fn pip(&self, options: &[&str], what: impl Into<OsString>) -> Outcome {
        let mut command = self.tool("python");
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        run(command.args(options).arg(what.into()))
    }

    /// Builds the wheel in the target directory of the workspace, so that what both need is
    /// compiled once. Needs maturin in this environment.
    pub(crate) fn wheel(&self, profile: &str) -> Outcome<PathBuf> {
        let out = fresh_directory("wheel")?;
        let mut command = self.tool("maturin");
        command.args(["build", "--profile", profile, "--out"]).arg(&out);
        command.args(["--manifest-path", "clients/python/Cargo.toml"]);
        command.arg("--target-dir").arg(workspace::target_dir(""));
        run(&mut command)?;
        only_file(&out, ".whl")
    }
}

fn write_sequences(file: &Path) -> Outcome {
    let mut command = cargo(["run", "--quiet", "--all-features", "--package"]);
    command.args(["tollgate-testkit", "--example", "sequences", "--", "1", SEQUENCES]);
    let written = std::fs::File::create(file).map(|out| command.stdout(out).status());
    match written {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => because(format!("the example `sequences` ended with {status}")),
        Ok(Err(error)) | Err(error) => because(format!("{}: {error}", file.display())),
    }
}

/// The server as the tests of the workspace have built it. Building it here would compile its
/// dependencies with other features once more.
fn server_program() -> Outcome<PathBuf> {
    let program = workspace::target_dir("debug").join("tollgate");
    if !program.is_file() {
        run(&mut cargo(["build", "--all-features", "--package", "tollgate-server"]))?;
    }
    Ok(program)
}

pub(crate) fn fresh_directory(name: &str) -> Outcome<PathBuf> {
    let directory = workspace::target_dir("clients").join(name);
    let _ = std::fs::remove_dir_all(&directory);
    match std::fs::create_dir_all(&directory) {
        Ok(()) => Ok(directory),
        Err(error) => because(format!("{}: {error}", directory.display())),
    }
}

fn only_file(directory: &Path, ending: &str) -> Outcome<PathBuf> {
    let files = workspace::entries(directory);
    match &files[..] {
        [file] if file.to_string_lossy().ends_with(ending) => Ok(file.clone()),
        _ => because(format!("{}: expected one file *{ending}", directory.display())),
    }
}
