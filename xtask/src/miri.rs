//! `cargo xtask miri`: tests the lock-free table in an interpreter that checks the memory model.

use crate::command::{add_flags, cargo_of, output, run_heard};
use crate::needs;
use crate::outcome::{Outcome, at_most, because};
use crate::tally::Tally;
use crate::workspace;

const FLAGS: &str = concat!(
    // Slots are reached by a pointer beside the vector that owns them. Memory that threads share
    // lives until the process ends.
    "-Zmiri-tree-borrows -Zmiri-ignore-leaks ",
    // The hash seed and the test harness read the environment of the machine.
    "-Zmiri-disable-isolation",
);

pub(crate) fn miri(arguments: &[String]) -> Outcome {
    at_most(1, arguments)?;
    needs::nightly()?;
    if output("rustup", &["run", "nightly", "cargo", "miri", "--version"]).is_none() {
        return because(
            "miri is not installed: `rustup component add miri rust-src --toolchain nightly`",
        );
    }
    let filter = arguments.first().map_or("atomic::table", String::as_str);
    let mut command = cargo_of("nightly", ["miri", "test", "--package", "tollgate", "--lib"]);
    command.arg("--target-dir").arg(workspace::target_dir("miri")).arg(filter);
    add_flags(&mut command, "MIRIFLAGS", FLAGS);
    let mut tally = Tally::default();
    run_heard(&mut command, |line| tally.hear(line))?;
    println!("\n{tally}");
    if tally.passed() == 0 {
        return because(format!("no test has `{filter}` in its name"));
    }
    tally.verdict(false)
}
