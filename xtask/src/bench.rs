//! `cargo xtask bench`: builds the benchmarks with optimisation and passes the arguments on.

use crate::clients_bench;
use crate::command::{cargo, run};
use crate::needs;
use crate::outcome::Outcome;
use crate::replay;
use crate::workspace;

pub(crate) fn bench(arguments: &[String]) -> Outcome {
    let name = arguments.first().map(String::as_str);
    if name == Some("replay") {
        return replay::bench(&arguments[1..]);
    }
    match name {
        Some("python") => return clients_bench::python(),
        Some("node") => return clients_bench::node(),
        _ => {}
    }
    if name == Some("clock") {
        needs::install_for("bench instructions")?;
        return run(&mut cargo(["bench", "--package", "tollgate", "--bench", "clock"]));
    }
    if let Some(name @ ("redis" | "http" | "server" | "stores" | "cluster" | "instructions")) = name
    {
        needs::install_for(&format!("bench {name}"))?;
    }
    if name == Some("server") {
        run(&mut cargo(["build", "--release", "--package", "tollgate-server"]))?;
    }
    // The benchmark is built in the target directory of tollgate, because `bench server` starts the
    // program beside its own.
    let mut command = cargo(["run", "--release", "--manifest-path", "bench/Cargo.toml"]);
    command.arg("--target-dir").arg(workspace::target_dir(""));
    if matches!(name, Some("memory" | "matrix")) {
        command.args(["--features", "heap"]);
    }
    run(command.arg("--").args(arguments))
}
