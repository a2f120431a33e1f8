//! The models of the lock-free table: every interleaving of a few threads, within a bound on
//! preemptions.

use crate::command::{add_flags, cargo, run_heard};
use crate::outcome::{Outcome, at_most, because};
use crate::tally::Tally;
use crate::workspace;

pub(crate) fn loom(arguments: &[String]) -> Outcome {
    at_most(1, arguments)?;
    let mut tally = Tally::default();
    models(arguments.first().map_or("loom", String::as_str), &mut tally)?;
    tally.verdict(false)
}

/// Runs the models whose name contains the filter. It is a failure if there is none: a renamed
/// model must not pass because it does not run.
pub(crate) fn models(filter: &str, tally: &mut Tally) -> Outcome {
    let mut command = cargo(["test", "--release", "--package", "tollgate", "--lib"]);
    command.arg("--target-dir").arg(workspace::target_dir("loom")).arg(filter);
    add_flags(&mut command, "RUSTFLAGS", "--cfg loom");
    if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
        // Two preemptions reveal bugs of this kind. Three still end within minutes.
        command.env("LOOM_MAX_PREEMPTIONS", "3");
    }
    let before = tally.passed();
    run_heard(&mut command, |line| tally.hear(line))?;
    if tally.passed() == before {
        return because(format!("no loom model has `{filter}` in its name"));
    }
    Ok(())
}
