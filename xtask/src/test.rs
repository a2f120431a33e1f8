//! `cargo xtask test` and its quick part, `check`.

use crate::command::{add_flags, cargo, run, run_heard};
use crate::needs;
use crate::outcome::{Failure, Outcome, at_most};
use crate::server::Servers;
use crate::step::step;
use crate::tally::Tally;
use crate::{clients, loom, workspace};

pub(crate) fn check(arguments: &[String]) -> Outcome {
    at_most(0, arguments)?;
    needs::component("rustfmt", "fmt")?;
    needs::component("clippy", "clippy")?;
    step("formatting", formatting)?;
    step("clippy", clippy)?;
    step("documentation", documentation)
}

/// Stops at the first step that fails. The tally is always the last line.
pub(crate) fn test(arguments: &[String]) -> Outcome {
    at_most(0, arguments)?;
    let mut tally = Tally::default();
    let mut outcome = suite(&mut tally);
    if outcome.is_err() {
        tally.at_least_one_failed();
    } else {
        outcome = tally.verdict(in_ci());
    }
    if let Err(Failure::Because(reason)) = &outcome {
        eprintln!("\nerror: {reason}");
    }
    println!("\n{tally}");
    outcome.map_err(|_| Failure::Printed)
}

fn suite(tally: &mut Tally) -> Outcome {
    step("packages", || needs::install_for("test"))?;
    check(&[])?;
    // Documentation tests get a step of their own.
    step("tests", || tests(tally, &["--workspace", "--tests"]))?;
    // The tests run once more with optimisation and without overflow checks: only this build shows
    // a wrap.
    step("tests in release", || tests(tally, &["--release", "--package", "tollgate", "--tests"]))?;
    step("documentation tests", || tests(tally, &["--workspace", "--doc"]))?;
    step("loom models", || loom::models("loom", tally))?;
    step("examples", || examples(tally))?;
    step("python", || clients::python(tally))?;
    step("typescript", || clients::typescript(tally))
}

fn tests(tally: &mut Tally, selection: &[&str]) -> Outcome {
    let mut command = cargo(["test", "--all-features", "--no-fail-fast"]);
    // All needed programs were installed, so a skipped test is a failure.
    command.env("TOLLGATE_NO_SKIP", "1");
    run_heard(command.args(selection), |line| tally.hear(line))
}

fn formatting() -> Outcome {
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    // These are outside the workspace: their dependencies need nightly, or are many. Formatting
    // them needs neither.
    run(&mut cargo(["fmt", "--manifest-path", "bench/Cargo.toml", "--check"]))?;
    run(&mut cargo(["fmt", "--manifest-path", "clients/python/Cargo.toml", "--check"]))?;
    run(&mut cargo(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))
}

fn clippy() -> Outcome {
    let everything = ["clippy", "--workspace", "--all-targets", "--all-features"];
    run(cargo(everything).args(["--", "-D", "warnings"]))
}

fn documentation() -> Outcome {
    let mut command = cargo(["doc", "--workspace", "--all-features", "--no-deps"]);
    add_flags(&mut command, "RUSTDOCFLAGS", "-D warnings");
    run(&mut command)
}

/// Runs each example to its end. Examples of stores find their server in the environment.
fn examples(tally: &mut Tally) -> Outcome {
    let servers = Servers::start()?;
    for (package, example) in workspace::examples() {
        println!("--> {package}: {example}");
        let of_package = ["run", "--quiet", "--all-features", "--package", &package];
        let mut command = cargo(of_package);
        command.args(["--example", &example]);
        command.envs(servers.variables().iter().map(|(name, value)| (name, value)));
        run_heard(&mut command, |line| tally.hear(line))?;
        tally.one_passed();
    }
    Ok(())
}

fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !["", "0", "false"].contains(&value.as_str()))
}
