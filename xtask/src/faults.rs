//! `cargo xtask faults`: every store under every fault, on real servers.

use crate::command::{cargo, run};
use crate::needs;
use crate::outcome::Outcome;

/// The whole matrix writes its table; a part of it only prints it.
pub(crate) fn faults(arguments: &[String]) -> Outcome {
    needs::install_for("test")?;
    let mut command = cargo(["run", "--package", "tollgate-faults", "--all-features", "--"]);
    if arguments.is_empty() {
        command.args(["--out", "bench/results/faults.md"]);
    }
    run(command.args(arguments))
}
