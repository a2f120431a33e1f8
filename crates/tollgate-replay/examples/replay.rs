//! Replays a log: `cargo run --release -p tollgate-replay --example replay -- access.log
//! 100/minute`. Without arguments it replays a small log of its own.
//!
//! The command `tollgate replay` does more. `cargo xtask bench replay` measures this program,
//! because it is built in seconds.

use std::error::Error;

use tollgate_replay::{Candidate, Replay};

const LOG: &str = r#"192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512
192.0.2.1 - - [10/Oct/2026:13:55:37 +0000] "GET /login HTTP/1.1" 200 512
192.0.2.2 - - [10/Oct/2026:13:55:38 +0000] "GET / HTTP/1.1" 200 512
192.0.2.1 - - [10/Oct/2026:13:55:39 +0000] "GET /login HTTP/1.1" 200 512
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let log = arguments.next();
    let limits: Vec<String> = arguments.collect();
    let limits = if limits.is_empty() { vec!["2/minute".to_owned()] } else { limits };
    let mut candidates = Vec::new();
    for limit in limits {
        candidates.push(Candidate::new(limit.parse()?));
    }
    let report = match log {
        Some(log) => Replay::new(vec![log.into()], candidates).run(|_| {})?,
        None => Replay::new(Vec::new(), candidates).run_on("log", LOG.as_bytes(), |_| {})?,
    };
    print!("{}", report.to_text());
    Ok(())
}
