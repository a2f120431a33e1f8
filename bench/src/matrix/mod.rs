//! The matrix: every key type, number of keys and limit, with one thread and with two. A run
//! measures as many cells as its time allows, chosen at random by a seed.

mod cells;
mod contenders;
mod keys;
mod measure;
mod plot;
mod report;

use crate::machine::Machine;
use crate::{Outcome, progress};
use cells::KeyKind;
use contenders::TITLES;
use measure::Measured;
pub(crate) use measure::{COMMAND, child};
use quanta::Instant;
use std::path::Path;
use std::time::Duration;

/// The size of the measurement.
pub(crate) struct Size {
    pub(crate) rounds: usize,
    /// No cell begins after this time.
    pub(crate) time: Duration,
    pub(crate) seed: u64,
}

/// Hits of a thread in a round.
const HITS: usize = 300_000;

/// All results.
struct Results {
    seed: u64,
    /// Cells of the whole matrix on this machine.
    cells: usize,
    measured: Vec<Measured>,
    bytes: Vec<(KeyKind, [f64; TITLES.len()])>,
}

/// Measures and writes the results.
pub(crate) fn run(size: &Size, out: &Path) -> Outcome<()> {
    let begin = Instant::now();
    let mut bytes = Vec::new();
    for kind in KeyKind::ALL {
        progress(&format!("bytes per key: {}", kind.title()));
        bytes.push((kind, measure::bytes(kind)?));
    }
    let cells = cells::all(size.seed, available_memory());
    let mut results = Results { seed: size.seed, cells: cells.len(), measured: Vec::new(), bytes };
    for cell in cells {
        if begin.elapsed() >= size.time {
            break;
        }
        let count = cells::in_words(cell.count);
        progress(&format!("{} x {count}, {}", cell.kind.title(), cell.limit.text));
        results.measured.push(measure::cell(cell, size.rounds, HITS)?);
    }
    print!("{}", report::plain(&results));
    std::fs::create_dir_all(out)?;
    let machine = Machine::look(&["governor", "rate-net", "quota", "tollgate"]);
    std::fs::write(out.join("matrix.md"), report::markdown(&results, &machine))?;
    std::fs::write(out.join("matrix.svg"), plot::plot(&results))?;
    println!("written: matrix.md and matrix.svg in {}", out.display());
    Ok(())
}

/// Three quarters of the memory that is free, in bytes: other programs need some too.
fn available_memory() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kilobytes.map_or(0, |kilobytes| 1_024 * kilobytes * 3 / 4)
}
