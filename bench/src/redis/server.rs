//! A `redis-server` of our own on a free port, and what it counts.

use crate::Outcome;
use crate::measure::waited_by;
use redis::{Commands, Connection};
use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;
use tollgate_testservers::Engine;

/// Gone when dropped. Keeps nothing on disk.
pub(crate) struct Server {
    first: Engine,
    /// The other nodes, if it is a cluster.
    others: Vec<Engine>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self { first: Engine::redis(&[]), others: Vec::new() }
    }

    /// A cluster of three primaries.
    pub(crate) fn start_cluster() -> Outcome<Self> {
        let node = || Engine::redis(&["--cluster-enabled", "yes"]);
        let cluster = Self { first: node(), others: vec![node(), node()] };
        let addresses = cluster.nodes().map(|node| format!("127.0.0.1:{}", node.port()));
        let create = Command::new("redis-cli")
            .args(["--cluster", "create", "--cluster-yes"])
            .args(addresses)
            .output()
            .map_err(|error| format!("redis-cli: {error} (apt install redis-tools)"))?;
        if !create.status.success() {
            return Err(String::from_utf8_lossy(&create.stdout).into());
        }
        Ok(cluster)
    }

    fn nodes(&self) -> impl Iterator<Item = &Engine> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(crate) fn port(&self) -> u16 {
        self.first.port()
    }

    pub(crate) fn url(&self) -> String {
        if self.others.is_empty() {
            return self.first.url();
        }
        format!("redis+cluster://127.0.0.1:{}", self.port())
    }

    /// A connection beside the measured ones, to the first node.
    pub(crate) fn control(&self) -> Outcome<Connection> {
        control(&self.first)
    }

    /// A connection to each node.
    pub(crate) fn controls(&self) -> Outcome<Vec<Connection>> {
        self.nodes().map(control).collect()
    }

    /// How long the nodes were ready to run but had no core.
    pub(crate) fn waited(&self) -> Duration {
        let of = |node: &Engine| {
            waited_by(&format!("/proc/{}/schedstat", node.id().unwrap_or_default()))
        };
        self.nodes().map(of).sum()
    }

    pub(crate) fn version(&self) -> Outcome<String> {
        let info: redis::InfoDict = redis::cmd("INFO").query(&mut self.control()?)?;
        Ok(info.get("redis_version").unwrap_or_else(|| "unknown".to_owned()))
    }
}

fn control(node: &Engine) -> Outcome<Connection> {
    let mut connection = redis::Client::open(node.url())?.get_connection()?;
    let _: String = connection.ping()?;
    Ok(connection)
}

/// The commands that reading the counters adds, and redis-benchmark's question for the settings.
const LOOKS: [&str; 2] = ["info", "config|get"];

/// The commands that the scripts here call, those of Python limits too. The server counts them like
/// commands that clients sent.
const INSIDE_SCRIPTS: [&str; 17] = [
    "time", "get", "set", "del", "incrby", "expire", "pexpire", "lrange", "lindex", "llen",
    "lpush", "rpush", "ltrim", "lset", "hget", "hset", "hmget",
];

/// The counters of the server since it started, or between two readings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    /// Calls and microseconds of each command, those inside scripts too.
    commands: HashMap<String, (f64, f64)>,
    pub(crate) bytes_in: f64,
    pub(crate) bytes_out: f64,
    /// Seconds of CPU time.
    pub(crate) cpu: f64,
}

impl Counted {
    /// The counters of all nodes together.
    pub(crate) fn look(connections: &mut [Connection]) -> Outcome<Self> {
        let mut counted = Self::default();
        for connection in connections {
            let text: String = redis::cmd("INFO").arg("everything").query(connection)?;
            counted.add(&text);
        }
        Ok(counted)
    }

    fn add(&mut self, info: &str) {
        let counted = self;
        for (name, value) in info.lines().filter_map(|line| line.split_once(':')) {
            let number = || value.trim().parse::<f64>().unwrap_or(0.0);
            match name {
                "total_net_input_bytes" => counted.bytes_in += number(),
                "total_net_output_bytes" => counted.bytes_out += number(),
                "used_cpu_sys" | "used_cpu_user" => counted.cpu += number(),
                _ => {
                    if let Some(command) = name.strip_prefix("cmdstat_") {
                        let field = |field: &str| {
                            let mut fields = value.split(',').filter_map(|f| f.split_once('='));
                            let found = fields.find(|(name, _)| *name == field);
                            found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0.0)
                        };
                        let (calls, micros) =
                            counted.commands.entry(command.to_owned()).or_default();
                        *calls += field("calls");
                        *micros += field("usec");
                    }
                }
            }
        }
    }

    /// The difference from an earlier reading.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let command = |(name, (calls, micros)): (&String, &(f64, f64))| {
            let (calls_then, micros_then) = earlier.commands.get(name).copied().unwrap_or_default();
            (name.clone(), (calls - calls_then, micros - micros_then))
        };
        Self {
            commands: self.commands.iter().map(command).collect(),
            bytes_in: self.bytes_in - earlier.bytes_in,
            bytes_out: self.bytes_out - earlier.bytes_out,
            cpu: self.cpu - earlier.cpu,
        }
    }

    pub(crate) fn calls(&self, command: &str) -> f64 {
        self.commands.get(command).map_or(0.0, |(calls, _)| *calls)
    }

    /// Commands that clients sent: what costs a round trip. Those that our looks and scripts call
    /// do not count.
    pub(crate) fn sent(&self) -> f64 {
        let scripts = self.calls("evalsha") + self.calls("eval");
        let by_others =
            |name: &&str| LOOKS.contains(name) || (scripts > 0.0 && INSIDE_SCRIPTS.contains(name));
        let names = self.commands.keys().map(String::as_str).filter(|name| !by_others(name));
        names.map(|name| self.calls(name)).sum()
    }

    /// Commands that scripts called.
    pub(crate) fn inside(&self) -> f64 {
        INSIDE_SCRIPTS.iter().map(|name| self.calls(name)).sum()
    }

    /// Microseconds of all calls of scripts, with everything they call.
    pub(crate) fn script_micros(&self) -> Option<f64> {
        let of = |name| self.commands.get(name).copied().unwrap_or_default();
        let ((calls, micros), (more_calls, more_micros)) = (of("evalsha"), of("eval"));
        let calls = calls + more_calls;
        (calls > 0.0).then_some(micros + more_micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_the_server_are_read_and_subtracted() {
        let info = "# Stats\r\ntotal_net_input_bytes:100\r\ntotal_net_output_bytes:40\r\n\
                    used_cpu_sys:0.5\r\nused_cpu_user:1.5\r\n\
                    cmdstat_evalsha:calls=10,usec=120,usec_per_call=12.00\r\n\
                    cmdstat_get:calls=10,usec=10,usec_per_call=1.00\r\n\
                    cmdstat_info:calls=3,usec=100,usec_per_call=33.3\r\n";
        let mut counted = Counted::default();
        counted.add(info);
        assert_eq!((counted.bytes_in, counted.bytes_out, counted.cpu), (100.0, 40.0, 2.0));
        assert_eq!(counted.script_micros(), Some(120.0));
        assert_eq!(counted.sent(), 10.0);
        assert_eq!(counted.inside(), 10.0);
        assert_eq!(counted.since(&counted).calls("evalsha"), 0.0);
        let one = counted.clone();
        counted.add(info);
        assert_eq!(counted.since(&one).calls("evalsha"), 10.0);
    }
}
