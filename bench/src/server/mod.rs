//! Servers: tollgate beside throttlecrab-server and Redis itself, each asked by a client that
//! others wrote.

mod contenders;
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

/// How much to measure.
pub(crate) struct Size {
    pub(crate) rounds: usize,
    /// Of one turn.
    pub(crate) span: Duration,
    /// Connections that do nothing.
    pub(crate) idle: usize,
}

/// What was measured of one contender.
struct Row {
    contender: Contender,
    turns: Vec<Turn>,
    /// Microseconds of the server's CPU for a question, of the best round for that: it moves less
    /// than speed does.
    cpu: f64,
}

impl Row {
    fn rates(&self) -> Vec<f64> {
        self.turns.iter().map(|turn| turn.rate).collect()
    }

    /// Of each round: how long all but one in a thousand waited at most.
    fn tails(&self) -> Vec<f64> {
        let [.., last] = self.waits_by_round();
        last
    }

    fn rate(&self) -> Option<f64> {
        in_the_middle(self.rates())
    }

    /// In the middle, each: the best would leave out just what a tail is about.
    fn waits(&self) -> [Option<f64>; QUANTILES.len()] {
        self.waits_by_round().map(in_the_middle)
    }

    fn waits_by_round(&self) -> [Vec<f64>; QUANTILES.len()] {
        std::array::from_fn(|i| self.turns.iter().map(|turn| turn.waits[i]).collect())
    }
}

/// What was measured.
struct Results {
    rows: Vec<Row>,
    idle: Vec<idle::Held>,
}

impl Results {
    fn row(&self, server: &str, scene: Scene) -> Option<&Row> {
        self.rows.iter().find(|row| row.contender.server == server && row.contender.scene == scene)
    }

    /// Ours that is asked and answers most like this one.
    fn ours(&self, theirs: &Row) -> Option<&Row> {
        let Contender { scene, shape, .. } = theirs.contender;
        let ours = |row: &&Row| row.contender.server == TOLLGATE && row.contender.scene == scene;
        self.rows.iter().filter(ours).find(|row| row.contender.shape == shape)
    }
}

/// Measures all and writes it down.
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
    // One that counts for nothing: connections, keys and caches are there afterwards.
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

/// In turns, those of a scene one after the other, and the other way round every other time: what
/// disturbs the machine meets all of them.
fn order(rows: &[Row], round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|index| rows[*index].contender.scene as usize);
    if round % 2 == 1 {
        order.reverse();
    }
    order
}
