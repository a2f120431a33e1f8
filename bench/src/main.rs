//! tollgate beside its peers: speed, memory, cleaning, tails, instructions.
//!
//! `cargo run --release --features heap -- memory [--quick]` measures all and writes tables and
//! plots under bench/results; `-- matrix` only its matrix of keys and limits; `-- redis` does the
//! same on a Redis server, `-- http` in a web server, `-- server` of the server itself, `-- stores`
//! of all stores, `-- cluster` of many nodes; `-- instructions` counts only the instructions of one
//! hit.
#![expect(
    clippy::float_arithmetic,
    reason = "nanoseconds, ratios and pixels are what this is about"
)]

mod arguments;
mod child;
mod cluster;
mod contenders;
mod heap;
mod http;
mod instructions;
mod keys;
mod machine;
mod matrix;
mod measure;
mod paired;
mod redis;
mod report;
mod results;
mod scenarios;
mod server;
mod stores;
mod svg;
mod table;
mod tail;
mod targets;

use arguments::Command;
use machine::Machine;
use results::Results;
use std::path::Path;
use std::process::ExitCode;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Keys of the large scenarios.
const KEYS: usize = 1_000_000;

/// The size of the measurement.
struct Size {
    keys: usize,
    hot_hits: usize,
    rounds: usize,
    /// Runs of each child process.
    repeats: usize,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments::parse(&arguments).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tollgate-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Outcome<()> {
    match command {
        Command::Memory { size, matrix, out } => {
            matrix::run(&matrix, &out)?;
            memory(&size, &out)
        }
        Command::Matrix { size, out } => matrix::run(&size, &out),
        Command::MatrixBytes(arguments) => matrix::child(&arguments),
        Command::Redis { size, out } => redis::run(&size, &out),
        Command::Http { size, out } => http::run(&size, &out),
        Command::Server { size, out } => server::run(&size, &out),
        Command::Stores { size, out } => stores::run(&size, &out),
        Command::Cluster { size, out } => cluster::run(&size, &out),
        Command::HttpChild(arguments) => http::child(&arguments),
        Command::Instructions => {
            let counts = instructions::count_all()?;
            print!("{}", report::instructions(counts.as_deref()).plain());
            Ok(())
        }
        Command::Child(arguments) => child::run(&arguments),
        Command::Count(arguments) => instructions::run(&arguments),
        Command::Help => {
            print!("{}", arguments::HELP);
            Ok(())
        }
    }
}

fn memory(size: &Size, out: &Path) -> Outcome<()> {
    let results = Results::measure(size)?;
    print!("{}", report::plain(&results));
    std::fs::create_dir_all(out)?;
    let mut packages: Vec<_> = contenders::ALL.iter().filter_map(|spec| spec.package).collect();
    packages.dedup();
    let machine = Machine::look(&packages);
    std::fs::write(out.join("memory.md"), report::markdown(&results, &machine))?;
    std::fs::write(out.join("memory.svg"), svg::plot(&results))?;
    println!("written: memory.md and memory.svg in {}", out.display());
    Ok(())
}

/// Prints a line of progress, apart from the results.
fn progress(line: &str) {
    eprintln!("… {line}");
}
