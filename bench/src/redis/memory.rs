//! The memory of a key, as Redis counts it.

use super::contenders::{store, subject};
use super::server::Server;
use crate::{Outcome, progress};
use redis::{Connection, InfoDict};
use tokio::runtime::Runtime;

const KEYS: usize = 20_000;

/// Keys asked one by one.
const ASKED: usize = 501;

/// The measured cases: title, limit, and hits of each key.
const CASES: [(&str, &str, usize); 9] = [
    ("gcra", "100/hour", 1),
    ("fixed-window", "100/hour fixed-window", 1),
    ("fixed-window-per-key", "100/hour fixed-window-per-key", 1),
    ("elastic-window", "100/hour elastic-window", 1),
    ("sliding-window", "100/hour sliding-window", 1),
    ("token-bucket", "100/hour token-bucket", 1),
    ("leaky-bucket", "100/hour leaky-bucket", 1),
    ("moving-window", "100/hour moving-window", 1),
    ("moving-window, 100 hits", "100/hour moving-window", 100),
];

pub(crate) struct Bytes {
    pub(crate) title: &'static str,
    /// The key as it stands in Redis, for an idea of its length.
    pub(crate) key: String,
    /// The median of `MEMORY USAGE`.
    pub(crate) usage: f64,
    /// Growth of `used_memory` by key.
    pub(crate) grown: f64,
}

pub(crate) fn measure(server: &Server, runtime: &Runtime) -> Outcome<Vec<Bytes>> {
    let mut control = server.control()?;
    let mut all = vec![plain(&mut control)?];
    let redis = runtime.block_on(store(server, 0))?;
    for (title, limit, hits) in CASES {
        progress(&format!("redis: memory of {title}"));
        let limiter = redis.limiter(limit)?;
        let count = KEYS / hits;
        let names: Vec<String> = (0..count).map(subject).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let before = empty(&mut control)?;
        for _ in 0..hits {
            for some in names.chunks(100) {
                runtime.block_on(limiter.hit_each(some))?;
            }
        }
        let key = |number| redis.key_of("", limit, &*subject(number));
        let keys = (0..count).map(key).collect::<Result<Vec<_>, _>>()?;
        all.push(look(&mut control, title, &keys, before)?);
    }
    Ok(all)
}

/// A counter as many write it by hand.
fn plain(control: &mut Connection) -> Outcome<Bytes> {
    let before = empty(control)?;
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|number| subject(number).into_bytes()).collect();
    for some in keys.chunks(1000) {
        let mut pipeline = redis::pipe();
        for key in some {
            pipeline.cmd("INCR").arg(key).cmd("PEXPIRE").arg(key).arg(3_600_000);
        }
        pipeline.exec(control)?;
    }
    look(control, "INCR + PEXPIRE", &keys, before)
}

/// Throws all keys away and tells what is used without them.
fn empty(control: &mut Connection) -> Outcome<f64> {
    redis::cmd("FLUSHALL").arg("SYNC").exec(control)?;
    used(control)
}

fn used(control: &mut Connection) -> Outcome<f64> {
    let info: InfoDict = redis::cmd("INFO").arg("memory").query(control)?;
    Ok(info.get("used_memory").ok_or("INFO memory: no used_memory")?)
}

fn look(
    control: &mut Connection,
    title: &'static str,
    keys: &[Vec<u8>],
    before: f64,
) -> Outcome<Bytes> {
    let grown = (used(control)? - before) / keys.len() as f64;
    let mut usages = Vec::new();
    for key in keys.iter().take(ASKED) {
        let usage: Option<f64> =
            redis::cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).query(control)?;
        usages.push(usage.ok_or_else(|| format!("{title}: a key has gone"))?);
    }
    usages.sort_by(f64::total_cmp);
    let usage = usages.get(usages.len() / 2).copied().ok_or("no keys")?;
    let key = keys.first().map(|key| String::from_utf8_lossy(key).into_owned());
    Ok(Bytes { title, key: key.unwrap_or_default(), usage, grown })
}
