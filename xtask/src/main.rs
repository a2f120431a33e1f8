//! All tasks of developers and CI. `cargo xtask help` lists them.

mod bench;
mod clients;
mod clients_bench;
mod command;
mod faults;
mod fuzz;
mod loom;
mod miri;
mod needs;
mod outcome;
mod replay;
mod sanitize;
mod server;
mod simulate;
mod step;
mod supply;
mod tally;
mod test;
mod workspace;

use std::process::ExitCode;

use crate::outcome::{Failure, Outcome};

struct Task {
    name: &'static str,
    arguments: &'static str,
    help: &'static str,
    run: fn(&[String]) -> Outcome,
}

const TASKS: &[Task] = &[
    Task {
        name: "test",
        arguments: "",
        help: "everything CI runs: formatting, clippy, documentation, tests in debug and release, models, examples",
        run: test::test,
    },
    Task {
        name: "check",
        arguments: "",
        help: "the quick part of it: formatting, clippy, documentation",
        run: test::check,
    },
    Task {
        name: "bench",
        arguments: "memory|redis|http|server|stores|cluster|replay|python|node|instructions|clock [args]",
        help: "side by side with others, in process, on Redis, in a web server, as a server, on all stores, on many nodes; logs that are replayed; the clients beside other limiters of Python and Node; instructions of one hit; the clock beside others (installs what it needs)",
        run: bench::bench,
    },
    Task {
        name: "clients",
        arguments: "",
        help: "the part of it that is about the packages for Python and TypeScript",
        run: clients::clients,
    },
    Task {
        name: "loom",
        arguments: "[filter]",
        help: "the loom models of the lock-free table, or those whose name contains the filter",
        run: loom::loom,
    },
    Task {
        name: "sanitize",
        arguments: "address|thread [filter]",
        help: "tests under a sanitizer, on a nightly toolchain",
        run: sanitize::sanitize,
    },
    Task {
        name: "miri",
        arguments: "[filter]",
        help: "the tests of the lock-free table under miri, on a nightly toolchain",
        run: miri::miri,
    },
    Task {
        name: "fuzz",
        arguments: "[target] [seconds]",
        help: "a fuzz target for some seconds, on a nightly toolchain (installs cargo-fuzz)",
        run: fuzz::fuzz,
    },
    Task {
        name: "simulate",
        arguments: "[seeds]",
        help: "leased and replicated fleets of nodes in a bad network, so many of each (100000)",
        run: simulate::simulate,
    },
    Task {
        name: "faults",
        arguments: "[--quick] [--store S] [--fault F]",
        help: "every store under every fault: what is admitted, what fails, how long it takes; all of it writes bench/results/faults.md in some minutes",
        run: faults::faults,
    },
    Task {
        name: "deny",
        arguments: "",
        help: "licences, advisories, duplicates and sources of the dependencies (installs cargo-deny)",
        run: supply::deny,
    },
    Task {
        name: "msrv",
        arguments: "",
        help: "the published crates on the oldest Rust they promise to build with",
        run: supply::msrv,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Because(reason)) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
        Err(Failure::Printed) => ExitCode::FAILURE,
    }
}

fn dispatch(arguments: &[String]) -> Outcome {
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", help());
        return Ok(());
    };
    if ["help", "--help", "-h"].contains(&name.as_str()) {
        print!("{}", help());
        return Ok(());
    }
    match TASKS.iter().find(|task| task.name == name) {
        Some(task) => (task.run)(rest),
        None => Err(outcome::unknown("command", name, TASKS.iter().map(|task| task.name))),
    }
}

fn help() -> String {
    let mut text = String::from("usage: cargo xtask <command>\n\n");
    for Task { name, arguments, help, .. } in TASKS {
        let call = format!("{name} {arguments}");
        text.push_str(&format!("  {call:<33} {help}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_command() {
        let text = help();
        assert!(TASKS.iter().all(|task| text.contains(task.name)));
    }

    #[test]
    fn unknown_command_is_named_with_the_known_ones() {
        let Err(Failure::Because(reason)) = dispatch(&["tset".to_owned()]) else {
            panic!("an unknown command must be refused");
        };
        assert!(reason.starts_with("unknown command `tset`"), "{reason}");
        assert!(reason.contains("test, check, bench"), "{reason}");
    }
}
