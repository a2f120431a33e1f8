//! One server process.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::{Directory, eventually};

/// A server process with a directory of its own. Drop kills it and removes the directory.
#[derive(Debug)]
pub struct Process {
    program: String,
    dir: Directory,
    child: Option<Child>,
}

impl Process {
    /// Prepares a server without starting it. If the program is not installed, the whole test
    /// binary exits successfully with a SKIPPED line; if `TOLLGATE_NO_SKIP` is set, it fails.
    ///
    /// # Panics
    /// When the program is missing and `TOLLGATE_NO_SKIP` is set, or its directory cannot be made.
    pub fn new(program: impl Into<String>, package: &str) -> Process {
        let program = program.into();
        skip_without(&program, package);
        Process { program, dir: Directory::new(), child: None }
    }

    /// The directory of the server.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Kills the process if it runs, and starts it. Its output is discarded.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(&mut self, arguments: impl FnOnce(&mut Command)) {
        self.kill();
        let mut command = Command::new(&self.program);
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        arguments(&mut command);
        let child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.program));
        self.child = Some(child);
    }

    /// Kills it with SIGKILL, as if the machine had lost its power.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops it with SIGSTOP: it keeps its connections but does not answer. Returns when all its
    /// threads have stopped.
    pub fn freeze(&self) {
        self.signal("STOP");
        let tasks = format!("/proc/{}/task", self.id().unwrap_or_default());
        eventually("it is frozen", || is_stopped(&tasks));
    }

    /// Continues a frozen process.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// Sends a signal: `TERM`, `KILL`, `HUP`.
    ///
    /// # Panics
    /// When it does not run.
    pub fn signal(&self, signal: &str) {
        let Some(child) = &self.child else { panic!("no {} to send {signal} to", self.program) };
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -s {signal}");
    }

    /// The process id, while the process runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The exit status, if the process has ended by itself.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether all threads listed in this directory of `/proc` are stopped. True on systems without
/// `/proc`.
fn is_stopped(tasks: &str) -> bool {
    let Ok(tasks) = std::fs::read_dir(tasks) else { return true };
    tasks.flatten().all(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        status.contains("State:\tT") || status.is_empty()
    })
}

fn skip_without(program: &str, package: &str) {
    static THERE: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let mut there = THERE.lock().unwrap_or_else(PoisonError::into_inner);
    let there = there.get_or_insert_default();
    if there.contains(program) {
        return;
    }
    let silent = |mut command: Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    let mut look = Command::new(program);
    look.arg("--version");
    if silent(look).is_ok() {
        there.insert(program.to_owned());
        return;
    }
    assert!(
        std::env::var_os("TOLLGATE_NO_SKIP").is_none(),
        "{program} is not installed, and skipping is not allowed here"
    );
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: these tests need {program} (Debian package {package}); `cargo xtask test` installs it"
    );
    std::process::exit(0);
}
