//! The matrix as tables: a summary, what was lost, and every cell.

use super::Results;
use super::cells::{KeyKind, in_words};
use super::contenders::{ATOMIC, GOVERNOR, MEMORY, PEERS, TITLES};
use super::measure::{Measured, Pace};
use crate::machine::Machine;
use crate::paired::in_the_middle;
use crate::report::{figure, goals, page};
use crate::table::Table;
use crate::targets::Target;

const HOW: &str = "\
## How it is measured

- A cell is a type of keys, a number of keys and a limit. All contenders take in all keys, then take turns in every round. A turn is 300,000
  hits of one thread, then as many of each of two threads; keys are drawn at random anew in every round. The best round counts.
- One thread: CPU time, so that other processes do not count. Two threads: wall time of the slower one, from rounds in which neither had to wait
  for a core. Where there was no such round, a * says so, and the figure is CPU time, which leaves out that threads wait for each other.
- Every contender gets its best key type: governor and quota the Rust type itself, rate-net its own conversion of it or bytes, tollgate numbers and
  addresses by value and texts borrowed. Peers have one algorithm each, and use it for windows too. Hits may be denied, as the limit says.
- The seed decides the order of the cells, and the time how many of them are measured. Numbers of keys that do not fit three quarters of the
  memory that was free are left out.
- Bytes are resident bytes of a process of its own that has taken in 1 M keys in order.
";

/// The limit within which two figures count as equal: such a difference is noise.
const LEVEL: f64 = 0.97;

pub(super) fn plain(results: &Results) -> String {
    tables(results).iter().map(Table::plain).collect()
}

pub(super) fn markdown(results: &Results, machine: &Machine) -> String {
    let title = "In-process limiters: every key type and limit";
    let picture = "![nanoseconds per hit over the number of keys](matrix.svg)";
    let measured = format!(
        "{} of {} cells, in the order of seed {}.",
        results.measured.len(),
        results.cells,
        results.seed
    );
    page(title, machine, &format!("{measured}\n\n{picture}"), &tables(results), HOW)
}

fn tables(results: &Results) -> Vec<Table> {
    vec![summary(results), bytes(results), goals(targets(results)), lost(results), all(results)]
}

/// One line of the matrix: a cell with a number of threads.
struct Line<'a> {
    measured: &'a Measured,
    threads: usize,
}

impl Line<'_> {
    fn paces(&self) -> &[Pace; TITLES.len()] {
        &self.measured.by_threads[self.threads - 1]
    }

    fn nanos(&self, contender: usize) -> f64 {
        self.paces()[contender].nanos
    }

    fn best_peer(&self) -> usize {
        let peers = 0..PEERS;
        peers.min_by(|a, b| self.nanos(*a).total_cmp(&self.nanos(*b))).unwrap_or(GOVERNOR)
    }

    /// How many times faster Atomic is than the fastest peer.
    fn atomic(&self) -> f64 {
        self.nanos(self.best_peer()) / self.nanos(ATOMIC)
    }

    /// How many times faster Memory is than governor.
    fn memory(&self) -> f64 {
        self.nanos(GOVERNOR) / self.nanos(MEMORY)
    }

    fn names(&self) -> Vec<String> {
        let cell = self.measured.cell;
        vec![
            cell.kind.title().to_owned(),
            in_words(cell.count),
            cell.limit.text.to_owned(),
            self.threads.to_string(),
        ]
    }
}

/// The lines in the order of the matrix.
fn lines(results: &Results) -> Vec<Line<'_>> {
    let mut cells: Vec<&Measured> = results.measured.iter().collect();
    cells.sort_by_key(|measured| {
        let cell = measured.cell;
        (cell.kind as usize, cell.count, super::cells::LIMITS.iter().position(|l| l == cell.limit))
    });
    let both = |measured| [1, 2].map(|threads| Line { measured, threads });
    cells.into_iter().flat_map(both).collect()
}

fn columns(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2}x")
}

fn middle(ratios: impl Iterator<Item = f64>) -> f64 {
    in_the_middle(ratios.collect()).unwrap_or(f64::NAN)
}

fn lowest(ratios: impl Iterator<Item = f64>) -> f64 {
    ratios.fold(f64::INFINITY, f64::min)
}

fn summary(results: &Results) -> Table {
    let lines = lines(results);
    let row = |kind: KeyKind| {
        let of_kind: Vec<&Line<'_>> =
            lines.iter().filter(|line| line.measured.cell.kind == kind).collect();
        if of_kind.is_empty() {
            return None;
        }
        let won = |ratio: fn(&Line<'_>) -> f64| {
            let won = of_kind.iter().filter(|line| ratio(line) >= LEVEL).count();
            format!("{won} of {}", of_kind.len())
        };
        let governor = |line: &&Line<'_>| line.nanos(GOVERNOR) / line.nanos(ATOMIC);
        Some(vec![
            kind.title().to_owned(),
            won(|line| line.atomic()),
            times(lowest(of_kind.iter().map(|line| line.atomic()))),
            times(middle(of_kind.iter().map(governor))),
            won(|line| line.memory()),
            times(lowest(of_kind.iter().map(|line| line.memory()))),
            times(middle(of_kind.iter().map(|line| line.memory()))),
        ])
    };
    Table {
        title: "Summary",
        columns: columns(&[
            "keys",
            "Atomic at least as fast as every peer",
            "worst",
            "median beside governor",
            "Memory at least as fast as governor",
            "worst",
            "median",
        ]),
        rows: KeyKind::ALL.into_iter().filter_map(row).collect(),
        note: "A cell with one thread and the same with two are counted apart. A difference of up to 3 % \
               counts as none",
    }
}

fn bytes(results: &Results) -> Table {
    let rows = results.bytes.iter().map(|(kind, bytes)| {
        let mut cells = vec![kind.title().to_owned()];
        cells.extend(bytes.map(figure));
        cells
    });
    let mut names = vec!["RSS bytes per key"];
    names.extend(TITLES);
    Table { title: "Memory at 1 M keys", columns: columns(&names), rows: rows.collect(), note: "" }
}

fn targets(results: &Results) -> Vec<Target> {
    let lines = lines(results);
    let in_all = |goal: &str, ratio: fn(&Line<'_>) -> f64| {
        let won = lines.iter().filter(|line| ratio(line) >= LEVEL).count();
        Target {
            goal: goal.to_owned(),
            reached: format!("{won} of {}", lines.len()),
            met: Some(won == lines.len()),
        }
    };
    let governor = middle(lines.iter().map(|line| line.nanos(GOVERNOR) / line.nanos(ATOMIC)));
    let scaled = lowest(results.measured.iter().map(scaling));
    let undisturbed = results.measured.iter().all(|m| !m.by_threads[1][ATOMIC].disturbed);
    let mut targets = vec![
        in_all("Atomic: at least as fast as the fastest peer in every cell", |line| line.atomic()),
        Target {
            goal: "Atomic: at least 2x governor in the median cell".to_owned(),
            reached: times(governor),
            met: Some(governor >= 2.0),
        },
        Target {
            goal: "Atomic: two threads at least 1.6x one in every cell".to_owned(),
            reached: times(scaled),
            // CPU time leaves out that threads wait for each other.
            met: undisturbed.then_some(scaled >= 1.6),
        },
        in_all("Memory: at least as fast as governor in every cell", |line| line.memory()),
    ];
    for (kind, bytes) in &results.bytes {
        for ours in [MEMORY, ATOMIC] {
            targets.push(Target {
                goal: format!("{}, {}: at most governor's bytes", TITLES[ours], kind.title()),
                reached: format!("{} of {}", figure(bytes[ours]), figure(bytes[GOVERNOR])),
                met: Some(bytes[ours] <= bytes[GOVERNOR]),
            });
        }
    }
    targets
}

/// The hits of two threads of Atomic together, in those of one.
fn scaling(measured: &Measured) -> f64 {
    let [one, two] = &measured.by_threads;
    2.0 * one[ATOMIC].nanos / two[ATOMIC].nanos
}

/// The cells in which a peer wins.
fn lost(results: &Results) -> Table {
    let rows = lines(results).into_iter().filter_map(|line| {
        let (atomic, memory) = (line.atomic(), line.memory());
        let peer = format!("{} {}", TITLES[line.best_peer()], figure(line.nanos(line.best_peer())));
        let mut cells = line.names();
        cells.extend([
            peer,
            if atomic < LEVEL { times(atomic) } else { "-".to_owned() },
            if memory < LEVEL { times(memory) } else { "-".to_owned() },
        ]);
        (atomic < LEVEL || memory < LEVEL).then_some(cells)
    });
    Table {
        title: "Where a peer wins",
        columns: columns(&[
            "keys",
            "number",
            "limit",
            "threads",
            "fastest peer, ns",
            "Atomic beside it",
            "Memory beside governor",
        ]),
        rows: rows.collect(),
        note: "A dash: tollgate is at least as fast",
    }
}

fn all(results: &Results) -> Table {
    let mut names = vec!["keys", "number", "limit", "threads"];
    names.extend(TITLES);
    names.extend(["Atomic beside the fastest peer", "Memory beside governor"]);
    let rows = lines(results).into_iter().map(|line| {
        let mut cells = line.names();
        cells.extend(line.paces().map(|pace| {
            format!(
                "{}{}",
                figure(pace.nanos),
                if pace.disturbed && line.threads == 2 { "*" } else { "" }
            )
        }));
        cells.extend([times(line.atomic()), times(line.memory())]);
        cells
    });
    let rows: Vec<_> = rows.collect();
    Table {
        title: "Every cell, ns per hit of a thread",
        columns: columns(&names),
        rows,
        note: "* no round was free of other processes",
    }
}
