//! The load: connections that send the next requests as soon as the last ones are answered.

use std::error::Error;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tollgate::{Clock as _, SystemClock, Timestamp};
use tollgate_report::grouped;

use super::failure::Failure;
use super::tally::Tally;
use super::wire::Wire;
use super::{Bench, Protocol, grpc, text};
use crate::cli::output;

/// How long responses are awaited after the end of the load.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a connection waits after a failure before it connects again.
const PAUSE: Duration = Duration::from_millis(100);

/// The state that all connections share.
#[derive(Debug)]
struct Load {
    bench: Bench,
    opening: Opening,
    clock: SystemClock,
    stop: AtomicBool,
    requests: AtomicU64,
    errors: AtomicU64,
}

impl Load {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

pub(super) async fn run(bench: &Bench, span: Duration) -> Result<Tally, Box<dyn Error>> {
    let load = Arc::new(Load {
        bench: bench.clone(),
        opening: Opening::of(bench)?,
        clock: SystemClock::new(),
        stop: AtomicBool::new(false),
        requests: AtomicU64::new(0),
        errors: AtomicU64::new(0),
    });
    let mut sockets = Vec::new();
    for _ in 0..bench.connections {
        sockets.push(connect(bench).await.map_err(|failure| failure.text)?);
    }
    let begin = load.clock.now();
    let mut workers = JoinSet::new();
    for (number, socket) in (0..).zip(sockets) {
        workers.spawn(Worker::new(Arc::clone(&load), number).run(socket, span));
    }
    progress(&load, begin, span).await;
    load.stop.store(true, Ordering::Relaxed);
    let mut tally = Tally::over(load.clock.now().since(begin));
    while let Some(ended) = workers.join_next().await {
        tally.add(&ended?);
    }
    Ok(tally)
}

async fn connect(bench: &Bench) -> Result<TcpStream, Failure> {
    let address = bench.address();
    let socket = async {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(socket)
    };
    socket.await.map_err(|error| Failure::io(address, &error))
}

/// Prints a progress line each second until the load ends. On a terminal each line replaces the
/// previous one.
async fn progress(load: &Load, begin: Timestamp, span: Duration) {
    let terminal = std::io::stderr().is_terminal();
    let mut before = 0;
    loop {
        let left = span.saturating_sub(load.clock.now().since(begin));
        tokio::time::sleep(left.min(Duration::from_secs(1))).await;
        let passed = load.clock.now().since(begin);
        if !load.bench.quiet {
            let requests = load.requests.load(Ordering::Relaxed);
            let line = format!(
                "{:>4} of {} s {:>14} requests {:>10} errors {:>12}/s",
                passed.as_secs(),
                span.as_secs(),
                grouped(requests),
                grouped(load.errors.load(Ordering::Relaxed)),
                grouped(requests - before)
            );
            before = requests;
            match terminal {
                true => drop(write!(std::io::stderr(), "\r{line} ")),
                false => output::complain(&line),
            }
        }
        if passed >= span {
            if terminal && !load.bench.quiet {
                drop(write!(std::io::stderr(), "\r{:79}\r", ""));
            }
            return;
        }
    }
}

/// How connections of this load are opened.
#[derive(Debug)]
enum Opening {
    Text(Wire),
    Grpc(Arc<grpc::RequestTemplate>),
}

impl Opening {
    fn of(bench: &Bench) -> Result<Opening, String> {
        Ok(match bench.protocol {
            Protocol::Resp => Opening::Text(Wire::Resp),
            Protocol::Http => Opening::Text(Wire::Http),
            Protocol::Grpc => Opening::Grpc(Arc::new(grpc::RequestTemplate::new(bench)?)),
        })
    }

    async fn open(&self, bench: &Bench, socket: TcpStream) -> Result<Connection, Failure> {
        Ok(match self {
            Opening::Text(wire) => {
                Connection::Text(text::Connection::open(*wire, bench, socket).await?)
            }
            Opening::Grpc(question) => {
                Connection::Grpc(grpc::Connection::open(Arc::clone(question), socket).await?)
            }
        })
    }
}

enum Connection {
    Text(text::Connection),
    Grpc(grpc::Connection),
}

impl Connection {
    /// Whether the server closed the connection between requests. gRPC servers do that without an
    /// error.
    fn is_closed(&self) -> bool {
        matches!(self, Connection::Grpc(connection) if connection.is_closed())
    }
}

/// Keeps one connection busy, and counts.
struct Worker {
    load: Arc<Load>,
    keys: Keys,
    tally: Tally,
    /// Requests without a response so far.
    waiting: u64,
    /// The counts of requests and errors that were added to the progress.
    published: (u64, u64),
}

impl Worker {
    fn new(load: Arc<Load>, number: u64) -> Worker {
        let keys = Keys(number.wrapping_mul(0x9e37_79b9) | 1);
        Worker { load, keys, tally: Tally::default(), waiting: 0, published: (0, 0) }
    }

    async fn run(mut self, socket: TcpStream, span: Duration) -> Tally {
        if tokio::time::timeout(span + PATIENCE, self.ask_until_stopped(socket)).await.is_err() {
            let address = self.load.bench.address();
            let text =
                format!("server {address}: no answer {PATIENCE:?} after the end of the load");
            self.fail(Failure::new("no answer", &text));
        }
        self.tally
    }

    async fn ask_until_stopped(&mut self, socket: TcpStream) {
        let mut socket = Some(socket);
        while !self.load.stopped() {
            if let Err(failure) = self.use_connection(socket.take()).await {
                self.fail(failure);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Asks over one connection until it closes or the load ends.
    async fn use_connection(&mut self, socket: Option<TcpStream>) -> Result<(), Failure> {
        let load = Arc::clone(&self.load);
        let bench = &load.bench;
        let socket = match socket {
            Some(socket) => socket,
            None => connect(bench).await?,
        };
        let mut connection = load.opening.open(bench, socket).await?;
        while !load.stopped() && !connection.is_closed() {
            let sent = load.clock.now();
            self.waiting = bench.depth().into();
            let (tally, waiting) = (&mut self.tally, &mut self.waiting);
            let see = |outcome| {
                tally.saw(outcome, load.clock.now().since(sent).as_micros() as u64);
                *waiting -= 1;
            };
            match &mut connection {
                Connection::Text(connection) => connection.ask(bench, &mut self.keys, see).await?,
                Connection::Grpc(connection) => connection.ask(bench, &mut self.keys, see).await?,
            }
            self.publish();
        }
        Ok(())
    }

    /// Counts all waiting requests as failed; one, if the connection failed before any was sent.
    fn fail(&mut self, failure: Failure) {
        self.tally.fail(failure, self.waiting.max(1));
        self.waiting = 0;
        self.publish();
    }

    fn publish(&mut self) {
        let (requests, errors) = (self.tally.requests(), self.tally.errors());
        self.load.requests.fetch_add(requests - self.published.0, Ordering::Relaxed);
        self.load.errors.fetch_add(errors - self.published.1, Ordering::Relaxed);
        self.published = (requests, errors);
    }
}

/// Keys from a linear congruential generator: random enough, and cheap.
#[derive(Debug)]
pub(super) struct Keys(u64);

impl Keys {
    pub(super) fn next(&mut self, keys: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % keys
    }
}
