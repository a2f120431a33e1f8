//! One turn: wrk loads a server for a while.

use super::serve::Server;
use crate::Outcome;
use std::process::Command;
use std::time::Duration;

const CONNECTIONS: &str = "32";

/// Makes wrk print figures for programs at the end.
const SCRIPT: &str = "\
function done(summary, latency, requests)
  local bad = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status + summary.errors.timeout
  print(string.format('figures %d %d %d %d', summary.requests, summary.duration, latency:percentile(99), bad))
end
";

pub(crate) struct Turn {
    pub(crate) rate: f64,
    pub(crate) cpu: f64,
    pub(crate) p99: f64,
}

pub(crate) fn ask(server: &Server, span: Duration) -> Outcome<Turn> {
    // wrk counts whole seconds.
    let seconds = format!("{}s", span.as_secs().max(1));
    let script = std::env::temp_dir().join(format!("tollgate-bench-{}.lua", std::process::id()));
    std::fs::write(&script, SCRIPT)?;
    let before = server.cpu()?;
    let output = Command::new("wrk")
        .args(["-t1", "-c", CONNECTIONS, "-d", &seconds, "-s"])
        .arg(&script)
        .arg(&server.url)
        .output()
        .map_err(|error| format!("wrk cannot be started (apt install wrk): {error}"))?;
    let ran = server.cpu()? - before;
    std::fs::remove_file(script)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let [requests, micros, p99, bad] = figures(&said).ok_or_else(|| format!("wrk said {said}"))?;
    if bad > 0.0 || requests == 0.0 {
        return Err(format!("{}: {bad} of {requests} requests failed", server.url).into());
    }
    Ok(Turn { rate: requests / micros * 1e6, cpu: ran / requests * 1e6, p99 })
}

fn figures(said: &str) -> Option<[f64; 4]> {
    let line = said.lines().find_map(|line| line.strip_prefix("figures "))?;
    let figures: Vec<f64> = line.split(' ').filter_map(|figure| figure.parse().ok()).collect();
    figures.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_wrk_is_parsed() {
        assert_eq!(figures("Running\nfigures 10 20 30 0\n"), Some([10.0, 20.0, 30.0, 0.0]));
        assert_eq!(figures("figures 10 20 30"), None);
    }
}
