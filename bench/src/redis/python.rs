//! The Python library `limits`, in an environment of its own under the target directory.

use super::turn::{QUANTILES, Turn};
use crate::{Outcome, arguments, progress};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SCRIPT: &str = include_str!("limits_bench.py");

/// An interpreter that has the library.
#[derive(Clone)]
pub(crate) struct Python {
    program: PathBuf,
    pub(crate) version: String,
}

impl Python {
    /// `None`, and a line that says why, where there is no Python or no way to get the library.
    pub(crate) fn prepare() -> Option<Self> {
        match Self::make() {
            Ok(python) => Some(python),
            Err(error) => {
                progress(&format!("SKIPPED: Python limits: {error}"));
                None
            }
        }
    }

    fn make() -> Outcome<Self> {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| arguments::repository().join("target"), PathBuf::from);
        let home = target.join("bench-python");
        let program = home.join("bin/python");
        if version(&program).is_err() {
            progress("Python limits: making an environment");
            said(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
            said(Command::new(&program).args(["-m", "pip", "install", "-q", "limits", "redis"]))?;
        }
        let version = version(&program)?;
        Ok(Self { program, version })
    }

    pub(crate) fn turn(
        &self,
        url: &str,
        strategy: &str,
        threads: usize,
        span: Duration,
    ) -> Outcome<Turn> {
        let mut command = Command::new(&self.program);
        command.args(["-c", SCRIPT, url, strategy, &threads.to_string()]);
        let said = said(command.arg(span.as_secs_f64().to_string()))?;
        let mut figures = said.split_whitespace().map(str::parse::<f64>);
        let mut next = || figures.next().ok_or("limits_bench.py: printed too little");
        let (hits, allowed, seconds) = (next()??, next()??, next()??);
        let wall = Duration::from_secs_f64(seconds);
        Ok(Turn { hits, allowed, wall, waits: [None; QUANTILES.len() + 1] })
    }
}

fn version(program: &Path) -> Outcome<String> {
    let text = "import importlib.metadata as m; print('limits', m.version('limits'), '· redis-py', m.version('redis'))";
    said(Command::new(program).args(["-c", text]))
}

fn said(command: &mut Command) -> Outcome<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        let cause = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name}: {}", cause.lines().last().unwrap_or("failed")).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
