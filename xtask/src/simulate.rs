//! `cargo xtask simulate`: simulated fleets by seed, more of them than CI has time for.

use crate::command::{cargo, run_heard};
use crate::needs;
use crate::outcome::{Outcome, at_most, because};
use crate::tally::Tally;

pub(crate) fn simulate(arguments: &[String]) -> Outcome {
    at_most(1, arguments)?;
    let seeds = arguments.first().map_or("100000", String::as_str);
    if !seeds.parse::<u64>().is_ok_and(|seeds| seeds > 0) {
        return because(format!("`{seeds}` is not a number of seeds"));
    }
    needs::install_for("test")?;
    let mut tally = Tally::default();
    let mut command =
        cargo(["test", "--release", "--package", "tollgate-cluster", "--all-features"]);
    command.args(["--lib", "--test", "it", "sim::"]).env("TOLLGATE_SIM_SEEDS", seeds);
    run_heard(&mut command, |line| tally.hear(line))?;
    println!("\n{tally}");
    tally.verdict(false)
}
