//! Servers: tollgate compared with throttlecrab-server and Redis itself, each loaded by a
//! third-party client.

mod contenders;
mod dashboard;
mod idle;
mod plot;
mod process;
mod protobuf;
mod report;
mod targets;
mod turn;

use crate::machine::Machine;
use crate::paired::in_the_middle;
use crate::{Outcome, progress};
use contenders::{Contender, Scene, TOLLGATE};
use process::Servers;
use std::path::Path;
use std::time::Duration;
use turn::{QUANTILES, Turn};

/// The size of the measurement.
pub(crate) struct Size {
    pub(crate) rounds: usize,
    /// The duration of one turn.
    pub(crate) span: Duration,
    /// The number of idle connections.
    pub(crate) idle: usize,
}

/// The results of one contender.
struct Row {
    contender: Contender,
    turns: Vec<Turn>,
    /// Microseconds of the server's CPU per question, in the best round for that: it varies less
    /// than speed does.
    cpu: f64,
}

impl Row {
    fn rates(&self) -> Vec<f64> {
        self.turns.iter().map(|turn| turn.rate).collect()
    }

    /// The 99.9th percentile of response times in each round.
    fn tails(&self) -> Vec<f64> {
        let [.., last] = self.waits_by_round();
        last
    }

    fn rate(&self) -> Option<f64> {
        in_the_middle(self.rates())
    }

    /// The median of each. The best round would leave out what a tail shows.
    fn waits(&self) -> [Option<f64>; QUANTILES.len()] {
        self.waits_by_round().map(in_the_middle)
    }

    fn waits_by_round(&self) -> [Vec<f64>; QUANTILES.len()] {
        std::array::from_fn(|i| self.turns.iter().map(|turn| turn.waits[i]).collect())
    }
}

/// All results.
struct Results {
    rows: Vec<Row>,
    idle: Vec<idle::Held>,
}

impl Results {
    fn row(&self, server: &str, scene: Scene) -> Option<&Row> {
        self.rows.iter().find(|row| row.contender.server == server && row.contender.scene == scene)
    }

    /// The row of tollgate with the most similar questions and answers.
    fn ours(&self, theirs: &Row) -> Option<&Row> {
        let Contender { scene, shape, .. } = theirs.contender;
        let ours = |row: &&Row| {
            let Contender { server, watched, .. } = row.contender;
            server == TOLLGATE && !watched && row.contender.scene == scene
        };
        self.rows.iter().filter(ours).find(|row| row.contender.shape == shape)
    }
}

/// Measures everything and writes the results.
pub(crate) fn run(size: &Size, out: &Path) -> Outcome<()> {
    process::many_files()?;
    let servers = Servers::start()?;
    let rows = measure(&servers, size)?;
    let idle = idle::measure(&servers, size.idle)?;
    let results = Results { rows, idle };
    print!("{}", report::plain(&results));
    if servers.find(contenders::THROTTLECRAB).is_none() {
        progress(process::WHERE_THROTTLECRAB);
    }
    let mut machine = Machine::look(&["tollgate-server", "tokio", "hyper"]);
    machine.versions.extend(servers.versions());
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("server.md"), report::markdown(&results, &machine))?;
    std::fs::write(out.join("server.svg"), plot::plot(&results))?;
    println!("written: server.md and server.svg in {}", out.display());
    Ok(())
}

fn measure(servers: &Servers, size: &Size) -> Outcome<Vec<Row>> {
    let mut rows: Vec<Row> = contenders::all()
        .into_iter()
        .filter(|contender| servers.find(contender.server).is_some())
        .map(|contender| Row { contender, turns: Vec::new(), cpu: f64::MAX })
        .collect();
    // The first round does not count: connections, keys and caches exist afterwards.
    for round in 0..=size.rounds {
        progress(&format!("round {round} of {}", size.rounds));
        for index in order(&rows, round) {
            let row = &mut rows[index];
            let Some(server) = servers.find(row.contender.server) else { continue };
            let before = server.cpu()?;
            let turn = row.contender.turn(server, size.span)?;
            let cpu = server.cpu()? - before;
            if round > 0 {
                row.cpu = row.cpu.min(cpu / turn.asked * 1e6);
                row.turns.push(turn);
            }
        }
    }
    Ok(rows)
}

/// The order of the turns: contenders of a scene one after the other, and every other round in
/// reverse order, so that disturbances of the machine affect all.
fn order(rows: &[Row], round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|index| rows[*index].contender.scene as usize);
    if round % 2 == 1 {
        order.reverse();
    }
    order
}
