//! All stores in one run, each compared with the least that its server can do for a hit.

mod contenders;
mod etcd;
mod in_process;
mod memcached;
mod plot;
mod postgres;
mod redis;
mod report;
mod scene;
mod servers;
mod targets;

use crate::machine::Machine;
use crate::redis::turn::Turn;
use crate::{Outcome, progress};
use contenders::{Contender, Kind};
use scene::Scene;
use servers::Servers;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The size of the measurement.
pub(crate) struct Size {
    pub(crate) rounds: usize,
    /// The duration of one turn.
    pub(crate) span: Duration,
    /// Names of stores; all if there are none.
    pub(crate) only: Vec<String>,
}

/// The results of one contender in one scene.
struct Row {
    store: &'static str,
    title: &'static str,
    kind: Kind,
    scene: Scene,
    /// Hits per second in the best round.
    rate: f64,
    /// The allowed part of the hits of all rounds.
    allowed: f64,
    /// Nanoseconds at p50 and p99 of the best round, where single calls are measured.
    waits: [Option<f64>; 2],
}

impl Row {
    fn name(&self) -> String {
        if [in_process::DURABLE, in_process::IMMEDIATE].contains(&self.store) {
            return self.title.to_owned();
        }
        format!("{}: {}", self.store, self.title)
    }

    /// A name that fits a plot.
    fn short(&self) -> &'static str {
        if self.kind == Kind::Ours { self.store } else { self.title }
    }
}

/// All results.
struct Results(Vec<Row>);

impl Results {
    fn of(&self, store: &str, kind: Kind, scene: Scene) -> Option<&Row> {
        let is = |row: &&Row| row.store == store && row.kind == kind && row.scene == scene;
        self.0.iter().find(is)
    }
}

/// Measures everything and writes the results.
pub(crate) fn run(size: &Size, out: &Path) -> Outcome<()> {
    // One worker thread: the client has one core, the server the other.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let servers = Servers::start()?;
    let mut contenders = contenders::all(&servers, &runtime)?;
    if !size.only.is_empty() {
        contenders
            .retain(|contender| size.only.iter().any(|name| contender.store.starts_with(name)));
    }
    if contenders.is_empty() {
        let rule = "must be durable, Redis, Memcached, PostgreSQL or etcd";
        return Err(format!("--only `{}`: {rule}", size.only.join(",")).into());
    }
    let results = Results(measure(&contenders, &runtime, size)?);
    drop(contenders);
    print!("{}", report::plain(&results));
    if !size.only.is_empty() {
        return Ok(());
    }
    let mut machine = Machine::look(&["tokio", "redis", "tokio-postgres", "tonic", "redb"]);
    machine.versions.extend(servers.versions());
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("stores.md"), report::markdown(&results, &machine))?;
    std::fs::write(out.join("stores.svg"), plot::plot(&results))?;
    println!("written: stores.md and stores.svg in {}", out.display());
    Ok(())
}

/// Contenders take turns, so that changes of the machine affect all, and the best of several rounds
/// counts. The first round is untimed: connections, keys and caches exist afterwards.
fn measure(contenders: &[Contender], runtime: &Runtime, size: &Size) -> Outcome<Vec<Row>> {
    let mut turns: Vec<Vec<_>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..=size.rounds {
        progress(&format!("stores: round {round} of {}", size.rounds));
        for (contender, turns) in contenders.iter().zip(&mut turns) {
            let turn = (contender.work)(runtime, size.span)
                .map_err(|error| format!("{}, {}: {error}", contender.store, contender.title))?;
            if round > 0 {
                turns.push(turn);
            }
        }
    }
    let row = |(contender, turns): (&Contender, &Vec<Turn>)| {
        let best = turns.iter().max_by(|a, b| a.rate().total_cmp(&b.rate()))?;
        let sum = |of: fn(&Turn) -> f64| turns.iter().map(of).sum::<f64>();
        let [p50, p99, ..] = best.waits;
        Some(Row {
            store: contender.store,
            title: contender.title,
            kind: contender.kind,
            scene: contender.scene,
            rate: best.rate(),
            allowed: sum(|turn| turn.allowed) / sum(|turn| turn.hits),
            waits: [p50, p99],
        })
    };
    Ok(contenders.iter().zip(&turns).filter_map(row).collect())
}
