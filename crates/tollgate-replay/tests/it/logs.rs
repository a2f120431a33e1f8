//! Logs on the disk of a test.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use tollgate_replay::{Candidate, Replay, Report};

/// A file that is removed when the test ends.
pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn new(content: &[u8]) -> Log {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tollgate-replay-{}-{number}.log", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        Log(path)
    }

    pub(crate) fn lines<T: AsRef<str>>(lines: &[T]) -> Log {
        let text: String = lines.iter().map(|line| format!("{}\n", line.as_ref())).collect();
        Log::new(text.as_bytes())
    }

    pub(crate) fn gzip<T: AsRef<str>>(lines: &[T]) -> Log {
        let text: String = lines.iter().map(|line| format!("{}\n", line.as_ref())).collect();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        Log::new(&encoder.finish().unwrap())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// A replay of these logs.
pub(crate) fn replay(logs: &[&Log], limits: &[&str]) -> Replay {
    let candidates = limits.iter().map(|limit| Candidate::new(limit.parse().unwrap()));
    Replay::new(logs.iter().map(|log| log.0.clone()).collect(), candidates.collect())
}

pub(crate) fn report(logs: &[&Log], limits: &[&str]) -> Report {
    replay(logs, limits).run(|_| {}).unwrap()
}

/// A line with microseconds since 2026-01-01.
pub(crate) fn json_line(micros: u64, client: u8) -> String {
    let at = 1_767_225_600_000_000 + micros;
    let (seconds, rest) = (at / 1_000_000, at % 1_000_000);
    format!(
        r#"{{"ts":{seconds}.{rest:06},"request":{{"client_ip":"192.0.2.{client}","uri":"/"}}}}"#
    )
}

/// A line in the combined format that was written `second` seconds after noon.
pub(crate) fn combined_line(second: u64, client: &str, rest: &str) -> String {
    let (minute, second) = (second / 60, second % 60);
    format!(
        r#"{client} - - [10/Oct/2026:12:{minute:02}:{second:02} +0000] "GET / HTTP/1.1" 200 5 "-" "test"{rest}"#
    )
}
