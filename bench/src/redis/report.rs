//! The figures as tables, in the terminal and as Markdown.

use super::Results;
use super::contenders::Scene;
use super::rounds::Row;
use super::targets::{self, best};
use super::turn::QUANTILES;
use crate::machine::Machine;
use crate::report::{figure, goals, or_dash, page};
use crate::table::Table;

const HOW: &str = "\
## How it is measured

- One redis-server of the bench's own on the loopback, without persistence; the client has one worker thread, so client and server have a core each.
- All contenders take turns in every round, short ones, so that some meet a quiet machine. The best round of each counts in which the server did not
  have to wait for a core. CPU times are the least of all rounds: they move less than speed when other processes want the cores.
- tollgate sends the hits that wait at the same time in one call. The row with a call for each takes one unit instead of hitting, which decides the same in a
  call of its own, as hits were sent before there were batches.
- redis-benchmark sends what tollgate sends for a single hit: the bench looks at it with MONITOR and hands over its words. In all three forms 64 commands
  are in flight: one on each of 64 connections (-c 64 -P 1), 64 at once on one (-c 1 -P 64), or 32 at once on each of two (-c 2 -P 32). With 64
  connections the server pays system calls for each command; with one or two it reads and answers many at once, as with tollgate's one multiplexed
  connection.
- Every hit is allowed where nothing else is said, and the arrival time of GCRA is ahead of the clock. A moving window keeps its hits of 100 ms.
- Commands sent are counted by the server (INFO commandstats), without those that scripts call.
- Python limits calls one after the other in each of its threads, 64 or one, each with a connection of its own.
- Deadlines are set to two seconds, so that a busy machine ends no call.
";

pub(crate) fn plain(results: &Results) -> String {
    tables(results).iter().map(Table::plain).collect()
}

pub(crate) fn markdown(results: &Results, machine: &Machine) -> String {
    page(
        "tollgate on Redis, side by side",
        machine,
        "![hits per second, time of the script and bytes per key](redis.svg)",
        &tables(results),
        HOW,
    )
}

fn tables(results: &Results) -> Vec<Table> {
    let speed = |title, scenes: &[Scene], note| {
        let rows = results.rows.iter().filter(|row| scenes.contains(&row.scene));
        Table {
            title,
            columns: cells([
                "",
                "hits/s",
                "of redis-benchmark",
                "client CPU µs",
                "server CPU µs",
                "script µs",
                "commands sent per hit",
                "allowed",
            ]),
            rows: rows.map(|row| speed_row(row, best(results, row.scene))).collect(),
            note,
        }
    };
    vec![
        speed(
            "64 in flight, hot key",
            &[Scene::Hot],
            "Per hit. redis-benchmark sends the EVALSHA of one hit, and the part is of the fastest of its forms; * in every round the server had to wait for a core",
        ),
        speed("64 in flight, 1,000 keys", &[Scene::Keys], ""),
        speed("64 in flight, denied hot key and a policy", &[Scene::Denied, Scene::Policy], ""),
        speed("64 in flight, every other algorithm, hot key", &[Scene::Algorithm], ""),
        speed("64 in flight, cluster of three, hot key", &[Scene::ClusterHot], ""),
        speed("64 in flight, cluster of three, 1,000 keys", &[Scene::Cluster], ""),
        speed("One caller, hot key", &[Scene::One], ""),
        waits(results),
        server(results),
        bytes(results),
        goals(targets::check(results)),
    ]
}

fn speed_row(row: &Row, best: Option<&Row>) -> Vec<String> {
    let part = best.map(|best| format!("{:.0} %", 100.0 * row.rate / best.rate));
    vec![
        row.title.to_owned(),
        format!("{:.0}{}", row.rate, if row.disturbed { "*" } else { "" }),
        or_dash(part),
        figure(row.client),
        figure(row.server),
        or_dash(row.script.map(figure)),
        format!("{:.3}", row.sent),
        or_dash((!row.allowed.is_nan()).then(|| format!("{:.0} %", 100.0 * row.allowed))),
    ]
}

fn waits(results: &Results) -> Table {
    let mut columns = cells(["", "callers"]);
    columns.extend(QUANTILES.map(|(name, _)| name.to_owned()));
    columns.push("longest".to_owned());
    let told = results.rows.iter().filter(|row| row.waits[0].is_some());
    let of = [Scene::One, Scene::Hot, Scene::Keys, Scene::Denied, Scene::Policy];
    let rows = told.filter(|row| of.contains(&row.scene)).map(|row| {
        let callers = if row.scene == Scene::One { "1" } else { "64" };
        let keys = if row.scene == Scene::Keys { ", 1,000 keys" } else { "" };
        let mut cells = vec![format!("{}{keys}", row.title), callers.to_owned()];
        cells.extend(row.waits.map(|nanos| or_dash(nanos.map(|nanos| figure(nanos / 1e3)))));
        cells
    });
    Table {
        title: "How long a call takes, µs",
        columns,
        rows: rows.collect(),
        note: "Of the best round. redis-benchmark tells no p99.9; with many commands at once it counts from the first to the last of them",
    }
}

fn server(results: &Results) -> Table {
    let of = [Scene::Algorithm, Scene::Policy];
    let ours = results.rows.iter().filter(|row| row.id == "gcra" || of.contains(&row.scene));
    Table {
        title: "One hit on the server",
        columns: cells(["", "script µs", "commands inside", "bytes to it", "bytes back"]),
        rows: ours
            .map(|row| {
                vec![
                    row.title.to_owned(),
                    or_dash(row.script.map(figure)),
                    format!("{:.2}", row.inside),
                    format!("{:.0}", row.bytes_in),
                    format!("{:.0}", row.bytes_out),
                ]
            })
            .collect(),
        note: "Per hit, with 64 in flight: INFO commandstats and INFO stats",
    }
}

fn bytes(results: &Results) -> Table {
    let rows = results.bytes.iter().map(|bytes| {
        let [usage, grown] = [bytes.usage, bytes.grown].map(|bytes| format!("{bytes:.0}"));
        vec![bytes.title.to_owned(), usage, grown, format!("`{}`", bytes.key)]
    });
    Table {
        title: "Bytes per key, as Redis counts them",
        columns: cells(["", "MEMORY USAGE, median", "used_memory by key", "key"]),
        rows: rows.collect(),
        note: "20,000 keys of one hit each; with 100 hits each, 200 keys",
    }
}

fn cells<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}
