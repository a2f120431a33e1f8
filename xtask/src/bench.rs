//! `cargo xtask bench`: builds the benchmarks optimised and hands them the arguments.

use crate::command::{cargo, run};
use crate::needs;
use crate::outcome::Outcome;

pub(crate) fn bench(arguments: &[String]) -> Outcome {
    if arguments.first().is_some_and(|name| name == "instructions") {
        needs::install_for("bench instructions")?;
    }
    run(cargo(["run", "--release", "--package", "tollgate-bench", "--"]).args(arguments))
}
