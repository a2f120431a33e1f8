//! Memcached compared with a pipelined `ms` that states the version of the item it replaces.

use super::contenders::{Contender, Kind, Work, patient, tasks};
use super::scene::Scene;
use super::servers::Servers;
use crate::Outcome;
use crate::redis::turn::Turn;
use quanta::Instant;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;
use tokio::runtime::Runtime;
use tollgate_memcached::Memcached;

pub(crate) const MEMCACHED: &str = "Memcached";

/// About as long as a state of tollgate.
const VALUE: &str = "0123456789abcdef01234567";

pub(crate) fn contenders(servers: &Servers, runtime: &Runtime) -> Outcome<Vec<Contender>> {
    let url = format!("memcached://127.0.0.1:{}", servers.memcached);
    let store = runtime.block_on(Memcached::builder(url).guard(patient()).connect())?;
    let mut all = Vec::new();
    for scene in Scene::ALL {
        let mut add = |title, kind, work| {
            all.push(Contender { store: MEMCACHED, title, kind, scene, work });
        };
        let names = scene.subjects();
        let names = names.iter().map(|key| store.key_of("bare", scene.limit(), &**key));
        let names = names.map(|name| Ok(String::from_utf8(name?)?)).collect::<Outcome<_>>()?;
        let title = if scene.callers == 1 { "ms with cas" } else { "ms with cas, 64 at a time" };
        add(title, Kind::Bare, pipelined(servers.memcached, scene.callers, names));
        add("tollgate", Kind::Ours, tasks(scene, store.limiter(scene.limit())?));
    }
    Ok(all)
}

/// This many commands in one write, then all their answers: no client could do less.
fn pipelined(port: u16, depth: usize, names: Vec<String>) -> Work {
    Box::new(move |_, span| {
        let mut line = Line::open(port)?;
        for name in &names {
            line.put(name)?;
        }
        let start = Instant::now();
        let (mut hits, mut next) = (0, 0);
        while start.elapsed() < span {
            line.swap(&names, next, depth)?;
            next = (next + depth) % names.len();
            hits += depth;
        }
        let (hits, wall) = (hits as f64, start.elapsed());
        Ok(Turn { hits, allowed: hits, wall, waits: [None; 4] })
    })
}

struct Line {
    stream: BufReader<TcpStream>,
    out: Vec<u8>,
    answer: String,
    /// The version of each name.
    versions: Vec<u64>,
    /// The newest version that the server has given. It counts over all names, and nobody else
    /// writes. So the versions of commands in flight are known, also where a pipeline writes a hot
    /// key many times.
    newest: u64,
}

impl Line {
    fn open(port: u16) -> Outcome<Line> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let (out, answer, versions) = (Vec::new(), String::new(), Vec::new());
        Ok(Line { stream: BufReader::new(stream), out, answer, versions, newest: 0 })
    }

    /// Writes a value, whatever was there before.
    fn put(&mut self, name: &str) -> Outcome<()> {
        let length = VALUE.len();
        write!(self.stream.get_mut(), "ms {name} {length} T0 c\r\n{VALUE}\r\n")?;
        self.newest = self.version()?;
        self.versions.push(self.newest);
        Ok(())
    }

    /// Replaces this many values from there on, each only if it still has its version.
    fn swap(&mut self, names: &[String], from: usize, depth: usize) -> Outcome<()> {
        self.out.clear();
        for (sent, index) in (from..from + depth).enumerate() {
            let index = index % names.len();
            let (name, version, length) = (&names[index], self.versions[index], VALUE.len());
            write!(self.out, "ms {name} {length} T600 c O{sent} C{version}\r\n{VALUE}\r\n")?;
            self.versions[index] = self.newest + 1 + sent as u64;
        }
        self.stream.get_mut().write_all(&self.out)?;
        for _ in 0..depth {
            let version = self.version()?;
            if version != self.newest + 1 {
                return Err(format!("version {version} after {}", self.newest).into());
            }
            self.newest = version;
        }
        Ok(())
    }

    fn version(&mut self) -> Outcome<u64> {
        self.answer.clear();
        self.stream.read_line(&mut self.answer)?;
        let version = self
            .answer
            .strip_prefix("HD c")
            .and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
        version.ok_or_else(|| format!("`{}`: is not what was put", self.answer.trim()).into())
    }
}
