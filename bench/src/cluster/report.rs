//! The figures as tables, in the terminal and as Markdown.

use super::fleet::Mode;
use super::{Results, Row, Scene, targets};
use crate::machine::Machine;
use crate::report::{goals, page};
use crate::table::Table;

const HOW: &str = "\
## How it is measured

- Three nodes in one process with one worker thread, each with connections of its own to one `redis-server` on the loopback. One key, a fixed window of a second.
- The callers hit as fast as they are answered, 16 at a node; *nearly all at one node* is 16 at one and a hit in a millisecond at each of the others. What leased nodes decide in a
  second when nothing is refused is the load. The limit is twice that, the same, or a quarter of it, and the same limit for all modes. A mode that decides less does not get to the limit.
- *Calls* are questions to the server, or messages through it, for each decision. Admitted is what callers were told, by the second it counts in; the first and the last second do not count.
- Exact: `tollgate-redis` with its defaults, so denials are remembered. Replicated: Redis pub/sub, flushed every 20 ms. Every hit broadcast: each node publishes each hit that it admits, and counts its own and what it hears.
";

pub(crate) fn plain(results: &Results) -> String {
    tables(results).iter().map(Table::plain).collect()
}

pub(crate) fn markdown(results: &Results, machine: &Machine) -> String {
    page("Many nodes, side by side", machine, "", &tables(results), HOW)
}

fn tables(results: &Results) -> Vec<Table> {
    let mut tables: Vec<Table> = Scene::ALL.iter().map(|scene| table(results, *scene)).collect();
    tables.push(goals(targets::check(results)));
    tables
}

fn table(results: &Results, scene: Scene) -> Table {
    let columns = [
        "",
        "decisions/s",
        "of exact",
        "calls per decision",
        "of the limit used",
        "most beyond it",
    ];
    Table {
        title: scene.title(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: results
            .0
            .iter()
            .filter(|row| row.scene == scene)
            .map(|row| cells(results, row))
            .collect(),
        note: "",
    }
}

fn cells(results: &Results, row: &Row) -> Vec<String> {
    let Row { mode, scene, limit, tally } = row;
    let exact = results.of(Mode::Exact, *scene).map_or(f64::NAN, |exact| exact.tally.rate());
    let over = tally.over(*limit);
    let percent = 100.0 * over as f64 / *limit as f64;
    vec![
        mode.title().to_owned(),
        format!("{:.0}", tally.rate()),
        format!("{:.2}x", tally.rate() / exact),
        format!("{:.5}", tally.calls_per_decision()),
        format!("{:.1} %", 100.0 * tally.used(*limit)),
        if over == 0 { "0".to_owned() } else { format!("{over} ({percent:.2} %)") },
    ]
}
