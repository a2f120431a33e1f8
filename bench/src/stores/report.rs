//! The figures as tables, in the terminal and as Markdown.

use super::contenders::Kind;
use super::scene::Scene;
use super::{Results, Row, targets};
use crate::machine::Machine;
use crate::report::{figure, goals, or_dash, page};
use crate::table::Table;

const HOW: &str = "\
## How it is measured

- Each server is a process of its own on the loopback of this machine, with its defaults; etcd is a cluster of one, PostgreSQL's tables are unlogged. The
  client has one worker thread.
- All contenders take turns in every round; the best round of each counts. Every hit is allowed, and leaves a state that is not fresh again at the next.
- Beside each store stands the least that its server could do for a hit. Redis: `INCR` by the same client. Memcached: `ms` with the version of what it replaces,
  written and read by hand on a blocking socket, as many at a time as there are callers: they are sent together and all answers are awaited, which spares
  what waking up 64 callers costs. PostgreSQL: an upsert that counts, prepared, by one caller on one connection, who awaits each: one by one, also beside
  our 64 callers; for them it stands there too on a connection for each, and in one pipeline. etcd: a
  transaction of one comparison and one put, by the same client, of names and values as long as ours.
- Memory and the durable store are called by threads, and others by tasks; a look at the clock after every 256 hits. Each turn of these begins with as
  long a one untimed, in which the marks of the keys grow to what they use. The durable store has its default level and its file on the disk of temporary files.
  What still waits for the disk is in the figures. The durable store is measured by Memory asked in the same way: through a limiter for stores that wait, or, *asked at
  once*, the store without a limiter around it. *Memory* is Memory's own limiter, whose calls are no futures.
- On a hot key hits that wait at the same time are decided together by Memcached, PostgreSQL and etcd, so 64 callers may be faster than any bare command.
- Deadlines are set to ten seconds, so that a busy machine ends no call.
";

pub(crate) fn plain(results: &Results) -> String {
    tables(results).iter().map(Table::plain).collect()
}

pub(crate) fn markdown(results: &Results, machine: &Machine) -> String {
    page(
        "All stores, side by side",
        machine,
        "![hits per second](stores.svg)",
        &tables(results),
        HOW,
    )
}

fn tables(results: &Results) -> Vec<Table> {
    let mut tables: Vec<Table> = Scene::ALL.iter().map(|scene| speed(results, *scene)).collect();
    tables.push(goals(targets::check(results)));
    tables
}

fn speed(results: &Results, scene: Scene) -> Table {
    let rows = results.0.iter().filter(|row| row.scene == scene);
    let columns = ["", "hits/s", "of bare", "p50 µs", "p99 µs", "allowed"];
    Table {
        title: scene.title(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.map(|row| cells(results, row)).collect(),
        note: "",
    }
}

fn cells(results: &Results, row: &Row) -> Vec<String> {
    let bare = results.of(row.store, Kind::Bare, row.scene);
    let part = bare.map(|bare| format!("{:.2}x", row.rate / bare.rate));
    let mut cells = vec![row.name(), format!("{:.0}", row.rate), or_dash(part)];
    cells.extend(row.waits.map(|nanos| or_dash(nanos.map(|nanos| figure(nanos / 1e3)))));
    cells.push(format!("{:.0} %", 100.0 * row.allowed));
    cells
}
