//! The figures as tables, in the terminal and as Markdown.

use crate::contenders::{ALL, CONTROL, GOVERNOR};
use crate::machine::Machine;
use crate::results::{Results, Row};
use crate::scenarios::{Scenario, Speed};
use crate::table::Table;
use crate::tail::{BOUNDS, QUANTILES, TailFigures};
use crate::targets::{self, Target};

/// Notes that a reader of the Markdown needs to repeat the run.
const HOW: &str = "\
## How it is measured

- Keys are strings `user:<n>` in an order shuffled beforehand, walked in the order in which they lie in memory: the bytes of a key are in
  the cache when it is hit, as in a server that has just parsed them. The stores got the keys in another order.
- Every hit is allowed. The hot key has 1,000,000 per second with a burst of 1,000,000,000; with many keys one hit keeps a state alive for
  ten seconds (6 per minute, burst 1,500,000), so that no store may take a key for gone. Zipf has exponent 1 over 1 M keys.
- limitador has only fixed windows, and rate-net's default is a token bucket; all others are GCRA. throttlecrab uses its periodic store,
  sized for the keys; nobody else is told how many keys will come.
- Stale keys were hit once under 2 per second and left alone for three seconds.
- Bytes, cleaning and single calls are measured in a fresh process for each contender and run; the best run counts, because a stall of the
  contender's own comes in every run and one of the machine does not.
- Single calls are timed by the time stamp counter, one reading between two calls.
";

/// The results as text for the terminal.
pub(crate) fn plain(results: &Results) -> String {
    tables(results).iter().map(Table::plain).collect()
}

/// The results as Markdown for bench/results.
pub(crate) fn markdown(results: &Results, machine: &Machine) -> String {
    let picture = "![nanoseconds per hit, bytes per key and cost of cleaning](memory.svg)";
    page("In-process limiters side by side", machine, picture, &tables(results), HOW)
}

/// A page: an introduction, the machine, a picture if there is one, the tables, and how it was
/// measured.
pub(crate) fn page(
    title: &str,
    machine: &Machine,
    picture: &str,
    tables: &[Table],
    how: &str,
) -> String {
    let mut parts = vec![
        format!("# {title}"),
        [&machine.date[..], &machine.processor, &machine.compiler].join(" · "),
        machine.versions.join(" · "),
        format!("Made by `{}`.", machine.command),
    ];
    parts.extend((!picture.is_empty()).then(|| picture.to_owned()));
    let tables: Vec<String> = tables.iter().map(Table::markdown).collect();
    parts.push(format!("{}\n{how}", tables.join("\n")));
    parts.join("\n\n")
}

fn tables(results: &Results) -> Vec<Table> {
    let counts: Option<Vec<f64>> = results.rows.iter().map(|row| row.instructions).collect();
    vec![
        speed(results),
        storage(results),
        instructions(counts.as_deref()),
        tails(
            "Single calls while 1 M keys are inserted, µs",
            results,
            INSERT,
            "Other processes want the core too: in how many slow calls (over about 20 µs) the thread had \
             to wait for one, and the longest call without that wait. The control calls nothing: what \
             it shows is the machine",
        ),
        histogram("The same as a histogram: calls by length", results, INSERT),
        tails(
            "Single calls while 1 M stale keys leave and 1 M new ones come, µs",
            results,
            CHURN,
            "Stores that do not sweep by themselves (governor, quota) are swept by a second thread",
        ),
        histogram("The same as a histogram: calls by length, with sweep", results, CHURN),
        goals(targets::check(results)),
    ]
}

fn speed(results: &Results) -> Table {
    let mut columns = vec!["ns per hit".to_owned()];
    columns.extend(Scenario::ALL.map(|scenario| scenario.title().to_owned()));
    columns.push("allowed".to_owned());
    let rows = results.rows.iter().map(|row| {
        let cell = |scenario| {
            let yardstick = results.row(GOVERNOR).map(|governor| governor.speed(scenario));
            speed_cell(row.speed(scenario), yardstick, scenario.by_two())
        };
        let mut cells = vec![row.spec.title.to_owned()];
        cells.extend(Scenario::ALL.map(cell));
        let allowed = row.speeds.iter().map(|speed| speed.allowed).fold(1.0, f64::min);
        cells.push(percent(allowed));
        cells
    });
    Table {
        title: "Speed",
        columns,
        rows: rows.collect(),
        note: "Nanoseconds per hit and how many times faster than governor; one thread: CPU time, two \
               threads: wall time of each thread, with the sum of both in million hits per second. \
               Best of several rounds, contenders in turn; * no round was free of other processes",
    }
}

fn speed_cell(speed: Speed, yardstick: Option<Speed>, by_two: bool) -> String {
    let ratio = ratio(yardstick.map(|yardstick| yardstick.nanos), Some(speed.nanos));
    let sum = if by_two { format!(", {:.1} M/s", speed.millions) } else { String::new() };
    let star = if speed.disturbed { "*" } else { "" };
    format!("{}, {ratio}{sum}{star}", figure(speed.nanos))
}

fn storage(results: &Results) -> Table {
    let rows = results.rows.iter().filter(|row| row.spec.stores_keys).map(|row| {
        let governor = results.row(GOVERNOR);
        let millis = |row: &Row| row.clean.map(|clean| clean.millis);
        vec![
            row.spec.title.to_owned(),
            or_dash(row.bytes.map(|bytes| figure(bytes.rss))),
            ratio(
                governor.and_then(|row| row.bytes).map(|bytes| bytes.rss),
                row.bytes.map(|bytes| bytes.rss),
            ),
            or_dash(row.bytes.and_then(|bytes| bytes.heap).map(figure)),
            or_dash(millis(row).map(figure)),
            ratio(governor.and_then(millis), millis(row)),
            or_dash(row.clean.and_then(|clean| clean.removed).map(percent)),
        ]
    });
    Table {
        title: "Memory at 1 M keys `user:<n>`, and cleaning them when stale",
        columns: [
            "",
            "RSS bytes per key",
            "smaller",
            "heap bytes per key",
            "cleaning ms",
            "faster",
            "removed",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: rows.collect(),
        note: "RSS and live heap of a process of its own. Cleaning is one call for 1 M stale keys, CPU \
               time; quota can only remove key by key and frees nothing, limitador has no such call",
    }
}

/// `counts` in the order of [`ALL`].
pub(crate) fn instructions(counts: Option<&[f64]>) -> Table {
    let counts = counts.unwrap_or_default();
    let governor = ALL.iter().zip(counts).find(|(spec, _)| spec.id == GOVERNOR);
    let rows = ALL.iter().zip(counts).map(|(spec, count)| {
        let ratio = ratio(governor.map(|(_, count)| *count), Some(*count));
        vec![spec.title.to_owned(), format!("{count:.0}"), ratio]
    });
    Table {
        title: "Instructions of one hit on a hot key",
        columns: ["", "instructions", "fewer"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
        note: if counts.is_empty() {
            "Not counted: valgrind cannot be started"
        } else {
            "Counted by valgrind --tool=callgrind: steady whatever the machine does"
        },
    }
}

type TailOf = fn(&Row) -> Option<TailFigures>;
const INSERT: TailOf = |row| row.insert;
const CHURN: TailOf = |row| row.churn;

fn tails(title: &'static str, results: &Results, of: TailOf, note: &'static str) -> Table {
    let mut columns = vec![String::new()];
    columns.extend(QUANTILES.map(|(name, _)| name.to_owned()));
    columns.extend(
        ["longest", "waited for a core", "longest without", "keys at the end"].map(str::to_owned),
    );
    let rows = with_control(results, of).map(|(title, tail)| {
        let micros = |nanos: f64| figure(nanos / 1e3);
        let mut cells = vec![title.to_owned()];
        cells.extend(tail.quantiles.map(micros));
        cells.push(micros(tail.longest));
        cells.push(tail.waits.to_string());
        cells.push(micros(tail.longest_own));
        cells.push(or_dash(tail.keys.map(|keys| format!("{:.2} M", keys / 1e6))));
        cells
    });
    Table { title, columns, rows: rows.collect(), note }
}

fn histogram(title: &'static str, results: &Results, of: TailOf) -> Table {
    let mut columns = vec![String::new()];
    columns.extend(BOUNDS.map(|(name, _)| name.to_owned()));
    let rows = with_control(results, of).map(|(title, tail)| {
        let mut cells = vec![title.to_owned()];
        cells.extend(tail.counts.map(|count| count.to_string()));
        cells
    });
    Table { title, columns, rows: rows.collect(), note: "" }
}

/// The contenders with such a tail, and the control.
fn with_control(
    results: &Results,
    of: TailOf,
) -> impl Iterator<Item = (&'static str, TailFigures)> {
    let rows = results.rows.iter().filter_map(move |row| Some((row.spec.title, of(row)?)));
    rows.chain([(CONTROL.title, results.control)])
}

pub(crate) fn goals(targets: Vec<Target>) -> Table {
    let rows = targets.into_iter().map(|target| {
        let mark = target.mark().to_owned();
        vec![target.goal, target.reached, mark]
    });
    Table {
        title: "Targets",
        columns: ["goal", "reached", ""].map(str::to_owned).to_vec(),
        rows: rows.collect(),
        note: "",
    }
}

/// A measurement is exact to three digits at most.
pub(crate) fn figure(value: f64) -> String {
    let digits = if value < 1.0 {
        3
    } else if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.digits$}")
}

/// How many times better than the yardstick, where less is better.
fn ratio(yardstick: Option<f64>, value: Option<f64>) -> String {
    let (Some(yardstick), Some(value)) = (yardstick, value) else { return "-".to_owned() };
    let ratio = yardstick / value;
    let digits = if ratio < 0.1 { 2 } else { 1 };
    format!("{ratio:.digits$}x")
}

fn percent(part: f64) -> String {
    // Rounded down, so that 100 % means all.
    format!("{} %", (part * 1000.0).floor() / 10.0)
}

pub(crate) fn or_dash(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        for (value, text) in [(0.0123, "0.012"), (9.714, "9.71"), (10.44, "10.4"), (347.2, "347")] {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn only_all_is_shown_as_a_hundred_percent() {
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.99999), "99.9 %");
    }
}
