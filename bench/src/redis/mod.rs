//! Redis: tollgate beside redis-benchmark, a plain pipeline and Python limits, on one server of its
//! own.

mod benchmark;
mod capture;
mod contenders;
mod memory;
mod plot;
mod python;
mod report;
mod rounds;
pub(crate) mod server;
mod targets;
pub(crate) mod turn;

use crate::machine::Machine;
use crate::{Outcome, progress};
use contenders::Contender;
use memory::Bytes;
use python::Python;
use rounds::Row;
use server::Server;
use std::path::Path;
use std::time::Duration;

/// How much to measure.
pub(crate) struct Size {
    pub(crate) rounds: usize,
    /// Of one turn.
    pub(crate) span: Duration,
    /// Names of contenders; all if there are none.
    pub(crate) only: Vec<String>,
}

/// The measurements of a run.
struct Results {
    rows: Vec<Row>,
    bytes: Vec<Bytes>,
}

impl Results {
    fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }
}

/// Measures all and writes it down.
pub(crate) fn run(size: &Size, out: &Path) -> Outcome<()> {
    let server = Server::start();
    // One worker: the client has one core, the server the other.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let python = Python::prepare();
    let mut contenders = contenders::all(&server, &runtime, python.as_ref())?;
    let cluster = Server::start_cluster()?;
    let mut on_cluster = contenders::on_cluster(&cluster, &runtime)?;
    if !size.only.is_empty() {
        let wanted = |contender: &Contender| size.only.iter().any(|name| name == contender.id);
        contenders.retain(wanted);
        on_cluster.retain(wanted);
        let mut rows = rounds::run(&contenders, &server, &runtime, size.rounds, size.span)?;
        rows.extend(rounds::run(&on_cluster, &cluster, &runtime, size.rounds, size.span)?);
        print!("{}", report::plain(&Results { rows, bytes: Vec::new() }));
        return Ok(());
    }
    let mut rows = rounds::run(&contenders, &server, &runtime, size.rounds, size.span)?;
    rows.extend(rounds::run(&on_cluster, &cluster, &runtime, size.rounds, size.span)?);
    drop((contenders, on_cluster, cluster));
    let bytes = memory::measure(&server, &runtime)?;
    let results = Results { rows, bytes };
    print!("{}", report::plain(&results));
    if python.is_none() {
        progress("SKIPPED: Python limits, see above");
    }
    let mut machine = Machine::look(&["tollgate-redis", "redis", "tokio"]);
    machine.versions.push(format!("Redis {}", server.version()?));
    machine.versions.push(python.map_or("without Python limits".to_owned(), |p| p.version));
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("redis.md"), report::markdown(&results, &machine))?;
    std::fs::write(out.join("redis.svg"), plot::plot(&results))?;
    println!("written: redis.md and redis.svg in {}", out.display());
    Ok(())
}
