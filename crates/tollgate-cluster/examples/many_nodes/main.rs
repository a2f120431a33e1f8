//! Three processes share a limit of 1000 hits per second and are offered four times as many, first
//! leased, then replicated. Meanwhile one of them is killed and another one is cut off. Needs
//! `redis-server`. Draws the admitted hits:
//!
//! ```text
//! cargo run --release -p tollgate-cluster --features redis --example many_nodes [many-nodes.svg]
//! ```
#![expect(clippy::float_arithmetic, reason = "a picture has coordinates")]

mod node;
mod plot;

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::{Clock, SystemClock, Timestamp};
use tollgate_testservers::Engine;
use tollgate_testservers::calls::Line;

/// Hits per second, for all nodes together.
const LIMIT: u64 = 1_000;
const NODES: usize = 3;

/// When a node dies and when it is back, when another is cut off and when it is back, and the end;
/// in tenths of a second.
const KILLED: u64 = 20;
const AGAIN: u64 = 40;
const CUT: u64 = 60;
const MENDED: u64 = 80;
const END: u64 = 100;

/// Hits admitted in each tenth of a second by all nodes.
type Admitted = Arc<Mutex<Vec<u64>>>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [node, mode, url] = &arguments[..]
        && node == "node"
    {
        return node::run(mode, url);
    }
    let usual = std::env::temp_dir().join("many-nodes.svg");
    let path = arguments.first().map_or(usual, PathBuf::from);
    let runtime = tokio::runtime::Runtime::new()?;
    let mut panels = Vec::new();
    for mode in node::MODES {
        println!("{mode}: {} seconds, four times the limit is offered", END / 10);
        panels.push((mode, runtime.block_on(play(mode))?));
    }
    for (mode, admitted) in &panels {
        let most = admitted.chunks(10).map(|second| second.iter().sum::<u64>()).max();
        println!(
            "{mode}: {} admitted, at most {} in a second",
            admitted.iter().sum::<u64>(),
            most.unwrap_or(0)
        );
    }
    std::fs::write(&path, plot::draw(&panels))?;
    println!("drawn: {}", path.display());
    Ok(())
}

/// The whole run in one mode.
async fn play(mode: &str) -> Result<Vec<u64>, Box<dyn Error>> {
    let redis = Engine::redis(&[]);
    let lines: Vec<Line> = (0..NODES).map(|_| Line::to(redis.port())).collect();
    let clock = SystemClock::new();
    let admitted: Admitted = Arc::new(Mutex::new(vec![0; END as usize]));
    // Starts at a whole second, so that a second of the picture is one of the limit.
    let begin = Timestamp::from_micros((clock.now().as_micros() / 1_000_000 + 2) * 1_000_000);
    let start = |line: &Line| Node::start(mode, line.port(), begin, &admitted);
    let mut nodes = lines.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let until = async |tenths: u64| {
        let then = begin + Duration::from_millis(100 * tenths);
        tokio::time::sleep(then.since(clock.now())).await;
    };
    until(KILLED).await;
    println!("  {:>4.1} s: a node is killed", KILLED as f64 / 10.0);
    nodes[2].kill();
    until(AGAIN).await;
    println!("  {:>4.1} s: and started anew", AGAIN as f64 / 10.0);
    nodes[2] = start(&lines[2])?;
    until(CUT).await;
    println!("  {:>4.1} s: another one is cut off", CUT as f64 / 10.0);
    lines[0].cut();
    until(MENDED).await;
    println!("  {:>4.1} s: and mended", MENDED as f64 / 10.0);
    lines[0].mend();
    until(END).await;
    drop(nodes);
    let admitted = admitted.lock().map_err(|error| error.to_string())?.clone();
    Ok(admitted)
}

/// A process that is killed when it is dropped.
struct Node(Child);

impl Node {
    fn start(
        mode: &str,
        port: u16,
        begin: Timestamp,
        admitted: &Admitted,
    ) -> std::io::Result<Node> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["node", mode, &format!("redis://127.0.0.1:{port}/")])
            .stdout(Stdio::piped())
            .spawn()?;
        let (said, admitted) = (child.stdout.take(), Arc::clone(admitted));
        std::thread::spawn(move || {
            // Each line is a time in microseconds, and the number of hits admitted since the line
            // before.
            for line in
                said.into_iter().flat_map(|said| BufReader::new(said).lines()).map_while(Result::ok)
            {
                let mut numbers = line.split(' ').filter_map(|number| number.parse::<u64>().ok());
                let (Some(at), Some(count)) = (numbers.next(), numbers.next()) else { continue };
                let tenth = at.checked_sub(begin.as_micros()).map(|micros| micros / 100_000);
                if let (Some(tenth), Ok(mut all)) = (tenth, admitted.lock())
                    && let Some(sum) = all.get_mut(usize::try_from(tenth).unwrap_or(usize::MAX))
                {
                    *sum += count;
                }
            }
        });
        Ok(Node(child))
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}
