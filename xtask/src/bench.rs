//! `cargo xtask bench`: builds the benchmarks optimised and hands them the arguments.

use crate::command::{cargo, run};
use crate::needs;
use crate::outcome::Outcome;

pub(crate) fn bench(arguments: &[String]) -> Outcome {
    if let Some(name @ ("redis" | "http" | "instructions")) = arguments.first().map(String::as_str)
    {
        needs::install_for(&format!("bench {name}"))?;
    }
    run(cargo(["run", "--release", "--package", "tollgate-bench", "--"]).args(arguments))
}
