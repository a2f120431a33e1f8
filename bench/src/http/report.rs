//! The figures as tables, in the terminal and as Markdown.

use super::Row;
use super::contenders::{
    AROUND, AROUND_CONSTANT, AROUND_QUIET, CONSTANT, EMPTY, GOVERNOR, GOVERNOR_AROUND,
    GOVERNOR_AROUND_TELLS, GOVERNOR_TELLS, NONE, QUIET, TOLLGATE,
};
use crate::machine::Machine;
use crate::paired::{Paired, in_the_middle};
use crate::report::{figure, goals, or_dash, page};
use crate::table::Table;
use crate::targets::Target;

const HOW: &str = "\
## How it is measured

- One axum server for each contender and round, in a process and on a thread of its own; wrk has one thread and 32 connections. On two cores each has one.
- All contenders take turns in every round, each time another one first, in both directions. Requests/s and p99 are those of the round in the middle, CPU times the least of all.
- Contenders are compared within each round: what disturbs it meets both. Of these quotients the one in the middle is told, and in brackets where that would be for 19 of 20 runs
  like this one.
- All requests are of one client and pass: a limit of a million in a second is out of reach.
- Addresses of peers are passed on to handlers by all servers but one, as whoever limits, logs or trusts by address needs it. What that takes, a server without a limiter can
  save: one that does is measured too. Two headers and the address of the peer are about 3 % of a request, whoever adds them.
- Headers are those of each by default, tollgate: `RateLimit` and `RateLimit-Policy`, where it says so; tower_governor: `x-ratelimit-limit` and
  `x-ratelimit-remaining`, where it says so. They are also more bytes to write and, for wrk, to read: 78 of tollgate's, one
  more than with a limit of `100/minute`, 59 of tower_governor's.
- Around: the app is served behind the limiter, `RateLimitLayer::around`. All others are layers inside of a router, as most apps have them and as the documentation of
  tower_governor shows it; put around an app by hand it is measured too.
- Three contenders limit nobody and show what no limiter can save: a layer that does nothing (axum boxes a service, a future and their clones for any layer), and
  headers like tollgate's, always the same ones, inside and around.
- A target is met if both meet it: the nanoseconds, as a part of the server's CPU for a request without a limiter, and requests/s in the round in the middle. `unclear`: requests/s miss it
  by so little that the rounds do not tell.
- Nanoseconds and instructions are those of the whole server without sockets: axum and hyper read requests from memory, on 32 connections in turn, and write responses there. The
  nanoseconds are the least of 300 turns of 640 requests, of all contenders in turn, and of 15 processes the one in the middle: one process differs from the next by 30 of them, and
  requests in a second by more than any limiter takes.
";

/// The most that a limiter may add, as a part of a request without one.
const PART: f64 = 0.03;

pub(crate) fn plain(rows: &[Row]) -> String {
    tables(rows).iter().map(Table::plain).collect()
}

pub(crate) fn markdown(rows: &[Row], machine: &Machine) -> String {
    page("tollgate in a web server, side by side", machine, "", &tables(rows), HOW)
}

fn row<'a>(rows: &'a [Row], id: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.contender.id == id)
}

fn tables(rows: &[Row]) -> Vec<Table> {
    let columns = [
        "",
        "headers",
        "requests/s",
        "of no limiter",
        "server CPU µs",
        "p99 µs",
        "ns added",
        "instructions added",
    ];
    let none = row(rows, NONE);
    let cells = rows.iter().map(|row| {
        let part = none.and_then(|none| Paired::of(&row.rates(), &none.rates()));
        let instructions = none.and_then(|none| Some(row.instructions? - none.instructions?));
        vec![
            row.contender.title.to_owned(),
            if row.contender.tells { "yes" } else { "no" }.to_owned(),
            or_dash(in_the_middle(row.rates()).map(|rate| format!("{rate:.0}"))),
            or_dash(part.map(|part| format!("{:.1} %", 100.0 * part.middle))),
            figure(row.cpu()),
            or_dash(in_the_middle(row.tails()).map(|p99| format!("{p99:.0}"))),
            format!("{:.0}", row.added),
            or_dash(instructions.map(|added| format!("{added:.0}"))),
        ]
    });
    let speed = Table {
        title: "An axum hello world",
        columns: columns.map(str::to_owned).to_vec(),
        rows: cells.collect(),
        note: "Per request; nanoseconds and instructions are those that the limiter adds",
    };
    vec![speed, goals(targets(rows))]
}

fn targets(rows: &[Row]) -> Vec<Target> {
    let goals = [
        (AROUND, NONE, "around, with headers: at most 3 % more than no limiter", PART),
        (AROUND_QUIET, NONE, "around, without headers: at most 3 % more than no limiter", PART),
        (AROUND, GOVERNOR_TELLS, "around, with headers: not slower than tower_governor", 0.0),
        (AROUND_QUIET, GOVERNOR, "around, without headers: not slower than tower_governor", 0.0),
        (AROUND, GOVERNOR_AROUND_TELLS, "around, with headers: not slower than it around", 0.0),
        (AROUND_QUIET, GOVERNOR_AROUND, "around, without headers: not slower than it around", 0.0),
        (TOLLGATE, NONE, "inside, with headers: at most 3 % more than no limiter", PART),
        (QUIET, NONE, "inside, without headers: at most 3 % more than no limiter", PART),
        (TOLLGATE, GOVERNOR_TELLS, "inside, with headers: not slower than tower_governor", 0.0),
        (QUIET, GOVERNOR, "inside, without headers: not slower than tower_governor", 0.0),
        // The cost of axum and of bytes on the wire, before any limiter is asked.
        (AROUND, AROUND_CONSTANT, "around: at most 3 % more than the same headers, fixed", PART),
        (TOLLGATE, CONSTANT, "inside: at most 3 % more than the same headers, fixed", PART),
        (
            QUIET,
            EMPTY,
            "inside, without headers: at most 3 % more than a layer that does nothing",
            PART,
        ),
    ];
    let of = |(ours, other, what, part): (_, _, _, f64)| {
        let pair = row(rows, ours).zip(row(rows, other))?;
        target(format!("tollgate, {what}"), row(rows, NONE)?, pair, part)
    };
    goals.into_iter().filter_map(of).collect()
}

/// Compares requests per second, which users see, and the time of a request without sockets, which
/// shows smaller differences.
fn target(goal: String, none: &Row, (ours, other): (&Row, &Row), part: f64) -> Option<Target> {
    let more = (ours.added - other.added) / (none.cpu() * 1e3);
    let rate = Paired::of(&ours.rates(), &other.rates())?;
    let [low, middle, high] =
        [rate.low, rate.middle, rate.high].map(|quotient| 100.0 * (quotient - 1.0));
    Some(Target {
        goal,
        reached: format!(
            "{:+.1} % of a request; requests/s {middle:+.1} % ({low:+.1} to {high:+.1})",
            100.0 * more
        ),
        met: if more <= part { rate.at_least(1.0 - part) } else { Some(false) },
    })
}
