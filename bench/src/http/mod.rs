//! HTTP: an axum server without a limiter, with tollgate-tower and with tower_governor, loaded by
//! wrk.

mod alone;
mod contenders;
mod line;
mod report;
mod serve;
mod turn;

use crate::machine::Machine;
use crate::{Outcome, progress};
use contenders::{ALL, Contender};
use serve::Server;
use std::path::Path;
use std::time::Duration;
use turn::Turn;

/// The hidden subcommand.
pub(crate) const COMMAND: &str = "http-child";

/// The size of the measurement.
pub(crate) struct Size {
    pub(crate) rounds: usize,
    /// The duration of one turn.
    pub(crate) span: Duration,
}

/// The results of one contender.
struct Row {
    contender: &'static Contender,
    turns: Vec<Turn>,
    /// Nanoseconds that it adds to a request, without sockets.
    added: f64,
    /// Instructions of such a request; `None` without valgrind.
    instructions: Option<f64>,
}

impl Row {
    /// Requests per second in each round.
    fn rates(&self) -> Vec<f64> {
        self.turns.iter().map(|turn| turn.rate).collect()
    }

    /// The 99th percentile of response times in microseconds, in each round.
    fn tails(&self) -> Vec<f64> {
        self.turns.iter().map(|turn| turn.p99).collect()
    }

    /// Microseconds of the server's CPU per request, in the best round for that: it varies less
    /// than speed does.
    fn cpu(&self) -> f64 {
        self.turns.iter().map(|turn| turn.cpu).fold(f64::MAX, f64::min)
    }
}

/// Measures everything and writes the results.
pub(crate) fn run(size: &Size, out: &Path) -> Outcome<()> {
    let rows = measure(size)?;
    print!("{}", report::plain(&rows));
    let machine = Machine::look(&["tollgate-tower", "tower_governor", "governor", "axum", "hyper"]);
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("http.md"), report::markdown(&rows, &machine))?;
    println!("written: http.md in {}", out.display());
    Ok(())
}

fn measure(size: &Size) -> Outcome<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for (contender, added) in ALL.iter().zip(alone::added(ALL)?) {
        let instructions = alone::count(contender)?;
        rows.push(Row { contender, turns: Vec::new(), added, instructions });
    }
    for round in 1..=size.rounds {
        progress(&format!("round {round} of {}", size.rounds));
        // The contenders take turns. Each round starts with another contender, and every other
        // round runs in reverse order, so that disturbances of the machine affect all.
        let mut order: Vec<usize> = (0..ALL.len()).collect();
        order.rotate_left(round % ALL.len());
        if round % 2 == 0 {
            order.reverse();
        }
        for index in order {
            let row = &mut rows[index];
            // A new process each time, because the memory layout of a process makes it faster or
            // slower for as long as it lives.
            let turn = turn::ask(&Server::start(row.contender)?, size.span)?;
            row.turns.push(turn);
        }
    }
    Ok(rows)
}

/// The child's side: serves, is timed, or is counted under valgrind.
pub(crate) fn child(arguments: &[String]) -> Outcome<()> {
    match arguments {
        [what] if what == "times" => alone::print_times(ALL),
        [what, id] if what == "serve" => serve::run(contenders::find(id)?),
        [what, id] if what == "count" => alone::run(contenders::find(id)?),
        _ => Err(format!("{COMMAND}: needs times, or serve or count and a contender").into()),
    }
}
