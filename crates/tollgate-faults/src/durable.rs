//! The durable store decides in the process that uses it. So its callers run in a separate process
//! that can be killed: this program, started as `tollgate-faults hits URL`. It writes a line for
//! each answer.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};
use tollgate::shared::SharedLimiter;
use tollgate_durable::Durable;
use tollgate_testservers::Directory;

use crate::cell::{CALLERS, DEADLINE, PAUSE, Size, answer, recovered};
use crate::counts::{Answer, Shared};
use crate::matrix::{Fault, LIMIT, NODES};
use crate::server::limit_files;

/// A process that sends hits, killed when dropped.
struct Hits(Child);

impl Hits {
    /// Starts the process, and counts its answers as they come.
    fn start(url: &str, counts: &Shared) -> Hits {
        let program = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
        // Ignores the signal that would end the process when it writes to a full disk.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" hits \"$1\""]).arg(program).arg(url);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("a process that hits: {error}"));
        if let Some(said) = child.stdout.take() {
            let counts = counts.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(said).lines().map_while(Result::ok) {
                    note(&counts, &line);
                }
            });
        }
        Hits(child)
    }
}

impl Drop for Hits {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads a line: the duration of a call in microseconds, a letter, and the error if it failed.
fn note(counts: &Shared, line: &str) {
    let mut words = line.splitn(3, ' ');
    let micros = words.next().and_then(|micros| micros.parse().ok());
    let answer = match (words.next(), words.next()) {
        (Some("admitted"), _) => Answer::Admitted,
        (Some("denied"), _) => Answer::Denied,
        (Some("failed"), error) => Answer::Failed(error.unwrap_or_default().to_owned()),
        // The kill cut this line off.
        _ => return,
    };
    let took = Duration::from_micros(micros.unwrap_or(0));
    counts.note(0, Instant::now() - took, answer, true);
}

pub(crate) async fn run(fault: Fault, size: Size) -> Shared {
    let directory = Directory::new();
    let url = format!("durable:{}", directory.path().join("limits").display());
    let counts = Shared::new(1);
    let mut hits = Hits::start(&url, &counts);
    while counts.lock().attempted == 0 {
        sleep(PAUSE).await;
    }
    sleep(size.calm).await;
    match fault {
        // It restarts immediately, because there is no server whose absence could be noticed.
        Fault::Kill => {
            block_in_place(|| drop(hits));
            counts.fault_ended();
            hits = Hits::start(&url, &counts);
        }
        _ => {
            let pid = hits.0.id().to_string();
            block_in_place(|| limit_files(&pid, true));
            sleep(size.fault).await;
            block_in_place(|| limit_files(&pid, false));
            counts.fault_ended();
        }
    }
    recovered(&counts).await;
    sleep(size.calm).await;
    block_in_place(|| drop(hits));
    counts
}

/// The main function of the process that sends hits.
pub(crate) async fn hit(url: &str) {
    let guard = Durable::usual_guard().deadline(DEADLINE);
    let store = Durable::builder(url).guard(guard).open().unwrap_or_else(|error| panic!("{error}"));
    let limiter = store.limiter(LIMIT).unwrap_or_else(|error| panic!("{LIMIT}: {error}"));
    // A crash may forget a new key, so the key is on disk before the callers begin.
    hit_once(&limiter).await;
    store.flush().await.unwrap_or_else(|error| panic!("{error}"));
    let callers = (0..CALLERS * NODES).map(|_| tokio::spawn(call(limiter.clone())));
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap_or_else(|error| panic!("a caller: {error}"));
    }
}

async fn call(limiter: SharedLimiter<Durable>) {
    loop {
        hit_once(&limiter).await;
        sleep(PAUSE).await;
    }
}

async fn hit_once(limiter: &SharedLimiter<Durable>) {
    let began = Instant::now();
    let answer = answer(limiter.hit("key").await);
    let micros = began.elapsed().as_micros();
    let line = match answer {
        Answer::Admitted => format!("{micros} admitted\n"),
        Answer::Denied | Answer::Remembered => format!("{micros} denied\n"),
        Answer::Failed(error) => format!("{micros} failed {error}\n"),
    };
    if say(&line).is_err() {
        // The process that started this one has ended.
        std::process::exit(1);
    }
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}
