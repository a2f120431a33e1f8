//! redis-benchmark: what the server gives to a client that does nothing but send.

use super::turn::{QUANTILES, Turn};
use crate::Outcome;
use std::cell::Cell;
use std::process::Command;
use std::time::Duration;

/// redis-benchmark with a number of connections and a pipeline on each.
pub(crate) struct Benchmark {
    port: u16,
    words: Vec<String>,
    connections: usize,
    /// Commands sent at once on each connection, the next ones when all have been answered.
    pipeline: usize,
    /// The rate of the previous turn: the program takes the number of hits, not a duration.
    rate: Cell<f64>,
}

impl Benchmark {
    pub(crate) fn new(port: u16, words: &[String], connections: usize, pipeline: usize) -> Self {
        Self { port, words: words.to_vec(), connections, pipeline, rate: Cell::new(20_000.0) }
    }

    /// The last 12 digits in the key of `words` become different ones with each command.
    pub(crate) fn spread(words: &[String], hot: &str) -> Vec<String> {
        words.iter().map(|word| word.replace(hot, "__rand_int__")).collect()
    }

    pub(crate) fn turn(&self, keys: usize, span: Duration) -> Outcome<Turn> {
        let count = (self.rate.get() * span.as_secs_f64()) as usize;
        let output = Command::new("redis-benchmark")
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "--csv"])
            .args(["-c", &self.connections.to_string(), "-P", &self.pipeline.to_string()])
            .args(["-n", &count.to_string(), "-r", &keys.to_string()])
            .args(&self.words)
            .output()
            .map_err(|error| format!("redis-benchmark: {error} (apt install redis-tools)"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let (rate, waits) = figures(&said).ok_or_else(|| format!("redis-benchmark: {said}"))?;
        self.rate.set(rate);
        let wall = Duration::from_secs_f64(count as f64 / rate);
        // It does not look at the answers.
        Ok(Turn { hits: count as f64, allowed: f64::NAN, wall, waits })
    }
}

/// Hits per second and waits in the last line: name, rate, mean, least, p50, p95, p99, longest, in
/// milliseconds.
fn figures(csv: &str) -> Option<(f64, [Option<f64>; QUANTILES.len() + 1])> {
    let line = csv.lines().last()?.trim().trim_matches('"');
    let mut fields = line.rsplit("\",\"").map(|field| field.parse::<f64>().ok());
    let [longest, p99, _, p50, _, _, rate] = std::array::from_fn(|_| fields.next().flatten());
    let nanos = |millis: Option<f64>| millis.map(|millis| millis * 1e6);
    Some((rate?, [nanos(p50), nanos(p99), None, nanos(longest)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_read_from_its_end() {
        let csv = "\"test\",\"rps\",\"avg\"\n\"EVALSHA a, b\",\"50000.5\",\"1.1\",\"0.2\",\"1\",\"2\",\"3\",\"4.5\"\n";
        let (rate, waits) = figures(csv).unwrap();
        assert_eq!(rate, 50000.5);
        assert_eq!(waits, [Some(1e6), Some(3e6), None, Some(4.5e6)]);
        assert!(figures("ERR no").is_none());
    }
}
