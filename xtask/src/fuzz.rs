//! `cargo xtask fuzz`: runs a fuzz target for a given time.

use std::fs;

use crate::command::{cargo_of, run};
use crate::needs;
use crate::outcome::{Outcome, at_most, because, unknown};
use crate::workspace;

pub(crate) fn fuzz(arguments: &[String]) -> Outcome {
    at_most(2, arguments)?;
    let targets = workspace::fuzz_targets();
    let target = arguments.first().map_or("limit_text", String::as_str);
    if !targets.iter().any(|known| known == target) {
        return Err(unknown("fuzz target", target, targets.iter().map(String::as_str)));
    }
    let seconds = arguments.get(1).map_or("60", String::as_str);
    if !seconds.parse::<u32>().is_ok_and(|seconds| seconds > 0) {
        return because(format!("`{seconds}` is not a number of seconds"));
    }
    needs::nightly()?;
    needs::install_for("fuzz")?;
    needs::subcommand("fuzz")?;
    // The fuzzer writes new inputs to the first directory and only reads the second.
    let corpus = format!("fuzz/corpus/{target}");
    let seeds = format!("fuzz/seeds/{target}");
    if let Err(error) = fs::create_dir_all(workspace::root().join(&corpus)) {
        return because(format!("{corpus} cannot be made: {error}"));
    }
    let mut command = cargo_of("nightly", ["fuzz", "run", target, &corpus]);
    if workspace::root().join(&seeds).is_dir() {
        command.arg(seeds);
    }
    command.args(["--", &format!("-max_total_time={seconds}")]);
    let dictionary = format!("fuzz/{target}.dict");
    if workspace::root().join(&dictionary).is_file() {
        command.arg(format!("-dict={dictionary}"));
    }
    run(&mut command)
}
