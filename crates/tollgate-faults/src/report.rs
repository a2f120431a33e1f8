//! The table of results.

use std::process::Command;
use std::time::Duration;

use crate::cell::{DEADLINE, LEAST_ANSWERED, MOST_LOST, Row};
use crate::matrix::{LIMIT, NODES, SKEW};
use crate::server::postgres_program;

const HEAD: &str = "\
| store | fault | attempted | admitted | allowed | by | errors | longest call | recovery | |
| --- | --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | --- |
";

pub(crate) fn table(rows: &[Row]) -> String {
    HEAD.to_owned() + &rows.iter().map(line).collect::<String>()
}

fn line(row: &Row) -> String {
    let recovery = row.recovery.map_or_else(|| "never".to_owned(), millis);
    let verdict = if row.failures.is_empty() {
        row.note.clone()
    } else {
        format!("**failed**: {}", row.failures.join("; "))
    };
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {recovery} | {verdict} |\n",
        row.store.name(),
        row.fault.name(),
        row.attempted,
        row.admitted,
        row.allowed,
        row.rule,
        row.errors,
        millis(row.longest),
    )
}

fn millis(span: Duration) -> String {
    format!("{} ms", span.as_millis())
}

pub(crate) fn markdown(rows: &[Row], arguments: &[String]) -> String {
    let command = arguments.join(" ");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let programs = ["redis-server", "nats-server", "memcached", "etcd"].map(str::to_owned);
    let versions: Vec<_> = programs
        .into_iter()
        .chain([postgres_program("postgres")])
        .map(|program| said(&program, &["--version"]))
        .collect();
    format!(
        "# Every store under every fault

{} · {cores} cores · {} · {}

Made by `cargo xtask faults{}{command}`. A cell fails when more is admitted than allowed, when a call takes longer than its
deadline of {DEADLINE:?} and half a second, or when the store does not answer again.

{}
`{LIMIT}`, {NODES} nodes with their own connections, about 1,000 calls a second on one key; denials are not remembered, so each call is
for the store. The fault begins after a second and lasts two seconds, four for replicas. *Errors* are calls without a decision; the rule
for failures is the default, an error. *Recovery* is the time from the end of the fault, for `kill` from the moment at which the server
listens again, to the first answer at the node that was last to get one; a replica must also see its peer.

| allowed by | the most that may be admitted in the time of all calls |
| --- | --- |
| the limit | the burst, and what the limit gives in that time |
| counts lost once | one burst more: the server keeps its counts in memory, PostgreSQL in a table that a crash empties |
| clock ahead | what the limit gives in {SKEW:?} more: one node's clock is that far ahead during the fault |
| each node alone | the limit for each node: replicas that do not hear each other go on, unless told otherwise |

| fault | |
| --- | --- |
| kill | `kill -9`, and a start on the data that are left; of the process that decides for the durable store |
| stop | `SIGSTOP`, `SIGCONT` |
| black-hole | connections are accepted, nothing is answered; what was sent arrives at the end |
| delay | each packet arrives 30 ms later |
| reset | connections are ended, and so is each new one |
| overload | after its capacity was measured, twice as many calls on 1,000 other keys, over a line of 10 ms and few bytes a second; one node. The cell fails below {LEAST_ANSWERED} % of the peak, and when more than {MOST_LOST} % of what is charged is not answered |
| skew | the clock of one node is {SKEW:?} ahead |
| memory | `maxmemory` is used up |
| disk | no file can grow (`RLIMIT_FSIZE`); for etcd, its quota is used up. PostgreSQL needs no disk for counts that a crash may empty |
| script-flush | `SCRIPT FLUSH` |
| drop-table | `DROP TABLE tollgate.counters` |
",
        said("date", &["-u", "+%F"]),
        said("rustc", &["--version"]),
        versions.join(" · "),
        if command.is_empty() { "" } else { " " },
        table(rows),
    )
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().next().unwrap_or("unknown").to_owned()
}
