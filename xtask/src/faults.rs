//! `cargo xtask faults`: every store under every fault, on real servers.

use crate::command::{cargo, run};
use crate::needs;
use crate::outcome::Outcome;

/// The whole matrix writes its table to a file. A part of it is only printed.
pub(crate) fn faults(arguments: &[String]) -> Outcome {
    needs::install_for("test")?;
    let mut command = cargo(["run", "--package", "tollgate-faults", "--all-features", "--"]);
    if arguments.is_empty() {
        command.args(["--out", "bench/results/faults.md"]);
    }
    run(command.args(arguments))
}
