//! The figures as tables, in the terminal and as Markdown.

use super::Results;
use super::contenders::Scene;
use super::targets;
use crate::machine::Machine;
use crate::paired::Paired;
use crate::report::{figure, goals, or_dash, page};
use crate::table::Table;

const HOW: &str = "\
## How it is measured

- Each server is a process of its own on the loopback of this machine, with its defaults, but for tollgate's deadline of two seconds; the clients are redis-benchmark, wrk with one thread and h2load
  with one thread, on the same cores.
- All contenders take turns in every round, in both directions. Figures are those of the round in the middle, CPU times the least of all.
- Contenders are compared within each round: what disturbs it meets both. Of these quotients the one in the middle is told, and in brackets where that would be for 19 of 20 runs
  like this one. `unclear`: a goal is missed by so little that the rounds do not tell.
- RESP and HTTP: 100,000 keys at random; no limit is ever reached. gRPC: one hot key, because h2load sends one body. Redis has no limits: `INCR` is the
  least that a recipe on it needs, and it does not expire. tollgate is compared with it by `TG.ALLOW`, which is told as one number too, and with throttlecrab by `CL.THROTTLE`, which is told as five.
- What tollgate's gRPC answers is Envoy's protocol, which carries more than throttlecrab's own.
- Without rest every server gets as much as it can bear, and the faster one more: there a tail is made of the moments in which the machine takes a core away from server or client. With rests all have
  the same to do.
- Waits with a pipeline are those of a whole pipeline.
- On memory and on Redis: the same program twice; its Redis is the one of the other rows. Client, tollgate and Redis share two cores there.
- A dashboard is one open stream of events. Its rows ask the same server, in turns.
- Idle connections have asked once and then nothing; memory is that of the whole process, after all that was measured before.
";

pub(crate) fn plain(results: &Results) -> String {
    tables(results).iter().map(Table::plain).collect()
}

pub(crate) fn markdown(results: &Results, machine: &Machine) -> String {
    page(
        "tollgate as a server, side by side",
        machine,
        "![plot](server.svg)",
        &tables(results),
        HOW,
    )
}

fn tables(results: &Results) -> Vec<Table> {
    let mut tables: Vec<Table> = Scene::ALL.iter().map(|scene| speed(results, *scene)).collect();
    tables.push(idle(results));
    tables.push(goals(targets::check(results)));
    tables
}

fn speed(results: &Results, scene: Scene) -> Table {
    let rows = results.rows.iter().filter(|row| row.contender.scene == scene).map(|row| {
        let paired = results.ours(row).and_then(|ours| Paired::of(&ours.rates(), &row.rates()));
        let part = paired.map(|paired| format!("{:.2}x", paired.middle));
        let (part, rate) = (or_dash(part), or_dash(row.rate().map(|rate| format!("{rate:.0}"))));
        let mut cells = vec![row.contender.title.to_owned(), rate, part, figure(row.cpu)];
        cells.extend(row.waits().map(|wait| or_dash(wait.map(figure))));
        cells
    });
    Table {
        title: scene.title(),
        columns: ["", "per second", "tollgate is", "server CPU µs", "p50 ms", "p99 ms", "p99.9 ms"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
        note: "",
    }
}

fn idle(results: &Results) -> Table {
    let rows = results.idle.iter().map(|held| {
        vec![
            format!("{}, {}", held.server, held.port),
            held.connections.to_string(),
            format!("{:.0}", held.resident / 1e6),
            format!("{:.1}", held.added / 1e3 / held.connections as f64),
        ]
    });
    Table {
        title: "Idle connections",
        columns: ["", "connections", "MB of the process", "kB added by each"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
        note: "",
    }
}
