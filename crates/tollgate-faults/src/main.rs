//! Every store under every fault. `cargo xtask faults` runs it.
//!
//! Each cell of the matrix starts the real server, lets callers of two nodes hit one limit for some
//! seconds, and makes the fault begin and end meanwhile. A cell fails if more was admitted than the
//! limit allows, if a call took longer than its deadline, or if the store does not answer again.

mod cell;
mod counts;
mod durable;
mod ground;
mod matrix;
mod report;
mod server;

use std::process::ExitCode;

use cell::Size;
use matrix::{Fault, QUICK, Store};

const HELP: &str = "\
usage: tollgate-faults [--quick] [--store NAME] [--fault NAME] [--list] [--out FILE]

  --quick       a few cells, each as short as can be
  --store NAME  the cells of one store
  --fault NAME  the cells of one fault
  --list        says which cells would run
  --out FILE    writes the table to a file
";

#[derive(Debug, Default)]
struct Arguments {
    quick: bool,
    store: Option<String>,
    fault: Option<String>,
    list: bool,
    out: Option<String>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tollgate_testservers::calls::runtime();
    if let [hits, url] = &arguments[..]
        && hits == "hits"
    {
        runtime.block_on(durable::hit(url));
        return ExitCode::SUCCESS;
    }
    let outcome = parse(&arguments).and_then(|parsed| {
        let cells = cells(&parsed)?;
        if parsed.list {
            cells.iter().for_each(|(store, fault)| println!("{} {}", store.name(), fault.name()));
            return Ok(());
        }
        runtime.block_on(run(&parsed, &cells, &arguments))
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Arguments, String> {
    let mut parsed = Arguments::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value =
            || words.next().cloned().ok_or_else(|| format!("{word} needs a value\n\n{HELP}"));
        match &word[..] {
            "--quick" => parsed.quick = true,
            "--list" => parsed.list = true,
            "--store" => parsed.store = Some(value()?),
            "--fault" => parsed.fault = Some(value()?),
            "--out" => parsed.out = Some(value()?),
            _ => return Err(format!("unknown argument `{word}`\n\n{HELP}")),
        }
    }
    Ok(parsed)
}

/// The cells that the arguments choose. With a filter, any cell can have the quick form.
fn cells(arguments: &Arguments) -> Result<Vec<(Store, Fault)>, String> {
    let all =
        || Store::ALL.iter().flat_map(|store| store.faults().into_iter().map(|f| (*store, f)));
    let Arguments { quick, store, fault, .. } = arguments;
    if *quick && store.is_none() && fault.is_none() {
        return Ok(QUICK.to_vec());
    }
    let chosen: Vec<_> = all()
        .filter(|(of, _)| store.as_ref().is_none_or(|store| of.name() == store))
        .filter(|(_, of)| fault.as_ref().is_none_or(|fault| of.name() == fault))
        .collect();
    if chosen.is_empty() {
        let known: Vec<_> =
            all().map(|(store, fault)| format!("{} {}", store.name(), fault.name())).collect();
        return Err(format!("no such cell; known are {}", known.join(", ")));
    }
    Ok(chosen)
}

async fn run(
    arguments: &Arguments,
    cells: &[(Store, Fault)],
    words: &[String],
) -> Result<(), String> {
    let mut rows = Vec::new();
    for (number, (store, fault)) in cells.iter().enumerate() {
        eprintln!("{}/{}: {}, {}", number + 1, cells.len(), store.name(), fault.name());
        let size = if arguments.quick { Size::QUICK } else { Size::full(*store) };
        rows.push(cell::run(*store, *fault, size).await);
        if let Some(row) = rows.last() {
            row.error.iter().for_each(|error| eprintln!("  last error: {error}"));
            row.failures.iter().for_each(|failure| eprintln!("  FAILED: {failure}"));
        }
    }
    print!("{}", report::table(&rows));
    if let Some(out) = &arguments.out {
        let text = report::markdown(&rows, words);
        std::fs::write(out, text).map_err(|error| format!("{out}: {error}"))?;
        println!("written: {out}");
    }
    match rows.iter().filter(|row| !row.failures.is_empty()).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} cells failed", rows.len())),
    }
}
