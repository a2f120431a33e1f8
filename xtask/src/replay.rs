//! `cargo xtask bench replay`: how fast a replay reads a log, and how much memory it takes.
//!
//! It runs the example `replay` of `tollgate-replay`, which does what the command `tollgate replay`
//! does with the same options.
//!
//! It writes `bench/results/replay.md`. The log is generated: combined lines of 100,000 clients,
//! few of which make most of the requests. Speed is lines per second of processor time, because a
//! replay runs on one thread and others may use the machine.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::command::{cargo, output, run};
use crate::outcome::{Outcome, at_most, because};
use crate::workspace;

const LINES: u64 = 2_000_000;
const QUICK_LINES: u64 = 200_000;
const LARGE_BYTES: u64 = 10_000_000_000;

/// The resources that one replay took.
struct Measured {
    title: String,
    lines: u64,
    bytes: u64,
    processor: Duration,
    peak_kib: u64,
}

pub(crate) fn bench(arguments: &[String]) -> Outcome {
    at_most(1, arguments)?;
    let is_quick = match arguments.first().map(String::as_str) {
        None => false,
        Some("--quick") => true,
        Some(other) => return because(format!("option `{other}`: must be --quick")),
    };
    run(&mut cargo(["build", "--release", "--package", "tollgate-replay", "--example", "replay"]))?;
    let program = workspace::target_dir("").join("release/examples/replay");
    let log = workspace::target_dir("").join("bench-replay.log");
    let lines = if is_quick { QUICK_LINES } else { LINES };
    let measured = measure_all(&program, &log, lines, is_quick);
    let removed = fs::remove_file(&log);
    let measured = measured.or_else(|error| because(error.to_string()))?;
    removed.or_else(|error| because(format!("{}: {error}", log.display())))?;
    let report = report(&measured);
    print!("{report}");
    if is_quick {
        return Ok(());
    }
    let file = workspace::root().join("bench/results/replay.md");
    fs::write(&file, report).or_else(|error| because(format!("{}: {error}", file.display())))
}

fn measure_all(
    program: &Path,
    log: &PathBuf,
    lines: u64,
    is_quick: bool,
) -> std::io::Result<Vec<Measured>> {
    let mut file = BufWriter::new(fs::File::create(log)?);
    let bytes = (0..lines).try_fold(0, |bytes, number| {
        let line = line(number);
        file.write_all(line.as_bytes())?;
        Ok::<u64, std::io::Error>(bytes + line.len() as u64)
    })?;
    file.into_inner()?.sync_all()?;
    let mut all = Vec::new();
    for (title, limits) in [
        ("one limit", &["100/minute burst=20"][..]),
        ("a policy of three limits", &["5/second; 100/minute; 1000/hour"]),
        (
            "four limits, side by side",
            &[
                "100/minute",
                "100/minute fixed-window",
                "100/minute sliding-window",
                "100/minute moving-window",
            ],
        ),
    ] {
        let child = Command::new(program).arg(log).args(limits).stdout(Stdio::null()).spawn()?;
        let (processor, peak_kib) = watch(child)?;
        all.push(Measured { title: title.to_owned(), lines, bytes, processor, peak_kib });
    }
    if !is_quick {
        all.push(large(program)?);
    }
    Ok(all)
}

/// Ten gigabytes through standard input.
fn large(program: &Path) -> std::io::Result<Measured> {
    let mut child = Command::new(program)
        .args(["-", "100/minute burst=20"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let input = child.stdin.take();
    let writer = std::thread::spawn(move || {
        let (mut lines, mut bytes) = (0_u64, 0_u64);
        let Some(input) = input else { return (lines, bytes) };
        let mut input = BufWriter::with_capacity(1 << 20, input);
        while bytes < LARGE_BYTES {
            let line = line(lines);
            if input.write_all(line.as_bytes()).is_err() {
                break;
            }
            bytes += line.len() as u64;
            lines += 1;
        }
        (lines, bytes)
    });
    let (processor, peak_kib) = watch(child)?;
    let (lines, bytes) = writer.join().unwrap_or_default();
    let title = "10 GB through standard input, one limit".to_owned();
    Ok(Measured { title, lines, bytes, processor, peak_kib })
}

/// Waits for a process. The processor time is what its `stat` showed last, at most 10 ms before it
/// ended; so is the peak of its memory.
fn watch(mut child: Child) -> std::io::Result<(Duration, u64)> {
    let proc = PathBuf::from(format!("/proc/{}", child.id()));
    let (mut ticks, mut peak) = (0, 0);
    loop {
        let stat = fs::read_to_string(proc.join("stat")).unwrap_or_default();
        // The fields after the name of the program, which stands in parentheses.
        let fields: Vec<u64> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
        let high_water = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = high_water.and_then(|line| line.split_whitespace().next()?.parse().ok());
        ticks = ticks.max(fields.get(11..13).map_or(0, |times| times.iter().sum()));
        peak = peak.max(kib.unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                return Err(std::io::Error::other(format!("replay: {status}")));
            }
            // A hundred ticks a second on every Linux.
            return Ok((Duration::from_millis(ticks * 10), peak));
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// A line of the log: 2,000 requests a second.
fn line(number: u64) -> String {
    let second = number / 2_000;
    let (day, second) = (10 + second / 86_400, second % 86_400);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    // The client of number n makes about 1/n of the requests.
    let client = 100_000 / (1 + random % 100_000) * 7 + random % 97;
    let (a, b) = (client / 250 % 250, client % 250);
    format!(
        "198.{}.{a}.{b} - - [{day}/Oct/2026:{hour:02}:{minute:02}:{second:02} +0000] \"GET /api/v1/items/{}?page={} HTTP/1.1\" 200 {} \"https://shop.example/catalog\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36\"\n",
        random % 250,
        number % 9_973,
        number % 7,
        500 + number % 900,
    )
}

fn report(measured: &[Measured]) -> String {
    let mut out = String::from(
        "# `tollgate replay`\n\nWritten by `cargo xtask bench replay`. The log is generated: combined lines of nginx with whole seconds, so every limit runs twice. Lines per second\n\
         are per second of processor time: a replay runs on one thread.\n\nTargets: at least 500,000 lines a second with one limit; 10 GB within 300 MB of memory.\n\n\
         | | lines | GB | processor time | lines a second | peak memory |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for one in measured {
        let millis = u64::try_from(one.processor.as_millis()).unwrap_or(u64::MAX).max(1);
        let _ = writeln!(
            out,
            "| {} | {} | {}.{:02} | {}.{} s | {} | {} MB |",
            one.title,
            one.lines,
            one.bytes / 1_000_000_000,
            one.bytes / 10_000_000 % 100,
            millis / 1_000,
            millis / 100 % 10,
            one.lines * 1_000 / millis,
            one.peak_kib * 1_024 / 1_000_000,
        );
    }
    let date = output("date", &["-u", "+%F"]).unwrap_or_default();
    let compiler = output("rustc", &["--version"]).unwrap_or_default();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown processor", |(_, name)| name.trim());
    let _ = writeln!(out, "\n{}, {model}, {}", date.trim(), compiler.trim());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_in_order_and_have_many_clients() {
        let clients: std::collections::HashSet<_> =
            (0..50_000).map(|number| line(number).split(' ').next().map(str::to_owned)).collect();
        assert!(clients.len() > 1_000, "{}", clients.len());
        assert!(line(2_000 * 86_400 + 5).contains("[11/Oct/2026:00:00:00 +0000]"));
    }
}
