//! One turn: a client loads a server for a while.

use crate::Outcome;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

pub(crate) const QUANTILES: [f64; 3] = [50.0, 99.0, 99.9];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turn {
    /// Questions answered per second.
    pub(crate) rate: f64,
    /// The [`QUANTILES`] in milliseconds.
    pub(crate) waits: [f64; QUANTILES.len()],
    /// The number of questions.
    pub(crate) asked: f64,
}

const KEYS: &str = "100000";

/// The most questions that a server may answer: redis-benchmark needs their number, not a duration.
const GUESS: [(usize, f64); 2] = [(1, 60_000.0), (16, 600_000.0)];

pub(crate) fn redis_benchmark(
    address: SocketAddr,
    words: &str,
    (connections, pipeline): (usize, usize),
    span: Duration,
) -> Outcome<Turn> {
    let ask = |count| ask_redis(address, words, (connections, pipeline), count);
    let guess = GUESS.iter().find(|(known, _)| *known == pipeline).map_or(1e5, |(_, rate)| *rate);
    // A slow server gets fewer, as a first short run shows.
    let look = ask((guess * span.as_secs_f64() / 20.0) as usize)?;
    let turn = ask((look.rate.min(2.0 * guess) * span.as_secs_f64()) as usize)?;
    Ok(Turn { asked: turn.asked + look.asked, ..turn })
}

fn ask_redis(
    address: SocketAddr,
    words: &str,
    (connections, pipeline): (usize, usize),
    count: usize,
) -> Outcome<Turn> {
    let count = count.max(5_000);
    let output = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", &address.port().to_string(), "-r", KEYS])
        .args([
            "-c",
            &connections.to_string(),
            "-P",
            &pipeline.to_string(),
            "-n",
            &count.to_string(),
            "--precision",
            "3",
        ])
        .args(words.split(' '))
        .output()
        .map_err(|error| format!("redis-benchmark: {error} (apt install redis-tools)"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    of_redis(&said, count as f64).ok_or_else(|| format!("redis-benchmark said {said}").into())
}

/// Reads lines such as `99.902% <= 1.287 milliseconds (...)` and `throughput summary: 74626.87
/// requests per second`.
fn of_redis(said: &str, asked: f64) -> Option<Turn> {
    let rate = said.split("throughput summary: ").nth(1)?.split(' ').next()?.parse().ok()?;
    let lines: Vec<(f64, f64)> = said
        .split(['\r', '\n'])
        .filter_map(|line| {
            let (part, rest) = line.trim().split_once("% <= ")?;
            Some((part.parse().ok()?, rest.split(' ').next()?.parse().ok()?))
        })
        .collect();
    let wait = |quantile: f64| {
        let later = lines.iter().filter(|(part, _)| *part >= quantile).map(|(_, wait)| *wait);
        later.min_by(f64::total_cmp)
    };
    let [p50, p99, p999] = QUANTILES.map(wait);
    Some(Turn { rate, waits: [p50?, p99?, p999?], asked })
}

/// `KEY` becomes one of the keys. The answers are checked: all must pass.
const SCRIPT: &str = "\
function request()
  local body = string.gsub(BODY, 'KEY', 'key:' .. math.random(KEYS))
  return wrk.format('POST', PATH, { ['content-type'] = 'application/json' }, body)
end
function done(summary, latency, requests)
  local bad = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status + summary.errors.timeout
  print(string.format('figures %d %d %d %d %d %d', summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9), bad))
end
";

/// Milliseconds between an answer and the next question.
const REST: &str = "\
function delay()
  return math.random(1, 3)
end
";

pub(crate) fn wrk(
    address: SocketAddr,
    (path, body): (&str, &str),
    (connections, rests): (usize, bool),
    span: Duration,
) -> Outcome<Turn> {
    let file = std::env::temp_dir().join(format!("tollgate-bench-{}.lua", std::process::id()));
    let rest = if rests { REST } else { "" };
    let script = format!("PATH = '{path}'\nKEYS = {KEYS}\nBODY = '{body}'\n{SCRIPT}{rest}");
    std::fs::write(&file, script)?;
    let seconds = format!("{}s", span.as_secs().max(1));
    let output = Command::new("wrk")
        .args(["-t1", &format!("-c{connections}"), "-d", &seconds, "-s"])
        .arg(&file)
        .arg(format!("http://{address}"))
        .output()
        .map_err(|error| format!("wrk: {error} (apt install wrk)"))?;
    std::fs::remove_file(file)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let [requests, micros, p50, p99, p999, bad] =
        figures(&said).ok_or_else(|| format!("wrk said {said}"))?;
    if bad > 0.0 || requests == 0.0 {
        return Err(format!("{bad} of {requests} requests failed").into());
    }
    let waits = [p50, p99, p999].map(|micros| micros / 1e3);
    Ok(Turn { rate: requests / micros * 1e6, waits, asked: requests })
}

fn figures(said: &str) -> Option<[f64; 6]> {
    let line = said.lines().find_map(|line| line.strip_prefix("figures "))?;
    let figures: Vec<f64> = line.split(' ').filter_map(|figure| figure.parse().ok()).collect();
    figures.try_into().ok()
}

pub(crate) fn h2load(
    address: SocketAddr,
    (path, message): (&str, &[u8]),
    (connections, streams): (usize, usize),
    span: Duration,
) -> Outcome<Turn> {
    let file =
        |name| std::env::temp_dir().join(format!("tollgate-bench-{}.{name}", std::process::id()));
    let (body, log) = (file("body"), file("log"));
    std::fs::write(&body, message)?;
    let _ = std::fs::remove_file(&log);
    let output = Command::new("h2load")
        .args([format!("-c{connections}"), format!("-m{streams}"), "-t1".to_owned()])
        .args(["-D", &span.as_secs().max(1).to_string()])
        .args(["-H", "content-type: application/grpc", "-H", "te: trailers", "-d"])
        .arg(&body)
        .arg(format!("--log-file={}", log.display()))
        .arg(format!("http://{address}{path}"))
        .output()
        .map_err(|error| format!("h2load: {error} (apt install nghttp2-client)"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let lines = std::fs::read_to_string(&log).unwrap_or_default();
    let _ = (std::fs::remove_file(&log), std::fs::remove_file(&body));
    of_h2load(&said, &lines).ok_or_else(|| format!("h2load said {said}").into())
}

/// Reads the output of h2load, and for each request: start, status, microseconds.
fn of_h2load(said: &str, log: &str) -> Option<Turn> {
    let rate = said.split("finished in ").nth(1)?.split(", ").nth(1)?.split(' ').next()?;
    let failed = said.split(" failed, ").next()?.rsplit(' ').next()?;
    let status = said.split("status codes: ").nth(1)?;
    if failed != "0" || !status.contains(" 0 3xx, 0 4xx, 0 5xx") {
        return None;
    }
    let mut micros: Vec<f64> =
        log.lines().filter_map(|line| line.split('\t').nth(2)?.parse().ok()).collect();
    micros.sort_by(f64::total_cmp);
    let wait = |quantile: f64| {
        let index = (micros.len() as f64 * quantile / 100.0) as usize;
        micros.get(index.min(micros.len().saturating_sub(1))).map(|micros| micros / 1e3)
    };
    let [p50, p99, p999] = QUANTILES.map(wait);
    Some(Turn { rate: rate.parse().ok()?, waits: [p50?, p99?, p999?], asked: micros.len() as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_redis_benchmark_is_parsed() {
        let said = "\r0.000% <= 0.1 milliseconds (cumulative count 1)\n50.000% <= 0.5 milliseconds (x)\n\
            99.219% <= 1.5 milliseconds (x)\n99.902% <= 2.5 milliseconds (x)\n100.000% <= 3 milliseconds (x)\n\
            Summary:\n  throughput summary: 1234.50 requests per second\n";
        assert_eq!(
            of_redis(said, 9.0),
            Some(Turn { rate: 1234.5, waits: [0.5, 1.5, 2.5], asked: 9.0 })
        );
        assert_eq!(of_redis("ERR", 9.0), None);
    }

    #[test]
    fn the_output_of_h2load_is_parsed() {
        let said = "finished in 1.00s, 5000.00 req/s, 1MB/s\nrequests: 2 total, 2 started, 2 done, 2 succeeded, 0 failed, 0 errored\n\
            status codes: 2 2xx, 0 3xx, 0 4xx, 0 5xx\n";
        let log = "1\t200\t1000\n2\t200\t3000\n";
        assert_eq!(
            of_h2load(said, log),
            Some(Turn { rate: 5000.0, waits: [3.0, 3.0, 3.0], asked: 2.0 })
        );
        assert_eq!(of_h2load(&said.replace("0 5xx", "1 5xx"), log), None);
    }
}
