//! HTTP: an axum server without a limiter, with tollgate-tower and with tower_governor, asked by
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

/// How much to measure.
pub(crate) struct Size {
    pub(crate) rounds: usize,
    /// Of one turn.
    pub(crate) span: Duration,
}

/// What was measured of one contender.
struct Row {
    contender: &'static Contender,
    turns: Vec<Turn>,
    /// Nanoseconds that it adds to a request, without sockets.
    added: f64,
    /// Instructions of a request there; `None` without valgrind.
    instructions: Option<f64>,
}

impl Row {
    /// Requests in a second, in each round.
    fn rates(&self) -> Vec<f64> {
        self.turns.iter().map(|turn| turn.rate).collect()
    }

    /// 99 of 100 were faster than that many microseconds, in each round.
    fn tails(&self) -> Vec<f64> {
        self.turns.iter().map(|turn| turn.p99).collect()
    }

    /// Microseconds of the server's CPU for a request, of the best round for that: it moves less
    /// than speed does.
    fn cpu(&self) -> f64 {
        self.turns.iter().map(|turn| turn.cpu).fold(f64::MAX, f64::min)
    }
}

/// Measures all and writes it down.
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
        // In turns, each time another one first, and the other way round every other time: what
        // disturbs the machine meets all of them.
        let mut order: Vec<usize> = (0..ALL.len()).collect();
        order.rotate_left(round % ALL.len());
        if round % 2 == 0 {
            order.reverse();
        }
        for index in order {
            let row = &mut rows[index];
            // A new process each time: where things lie in the memory of one makes it faster or
            // slower for as long as it lives.
            let turn = turn::ask(&Server::start(row.contender)?, size.span)?;
            row.turns.push(turn);
        }
    }
    Ok(rows)
}

/// The child's side: to serve, to be timed, or to be counted under valgrind.
pub(crate) fn child(arguments: &[String]) -> Outcome<()> {
    match arguments {
        [what] if what == "times" => alone::print_times(ALL),
        [what, id] if what == "serve" => serve::run(contenders::find(id)?),
        [what, id] if what == "count" => alone::run(contenders::find(id)?),
        _ => Err(format!("{COMMAND}: needs times, or serve or count and a contender").into()),
    }
}
