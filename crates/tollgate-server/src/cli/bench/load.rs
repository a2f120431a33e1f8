//! The load: connections that ask as fast as they are answered.

use std::error::Error;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tollgate::{Clock as _, SystemClock, Timestamp};

use super::tally::{Tally, grouped};
use super::{Bench, Speaks, wire};

/// What all connections look at.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    answered: AtomicU64,
}

pub(super) async fn run(bench: &Bench, span: Duration) -> Result<Tally, Box<dyn Error>> {
    let (shared, clock) = (Arc::new(Shared::default()), SystemClock::new());
    let address = bench.address();
    let mut connections = JoinSet::new();
    for number in 0..u64::from(bench.connections) {
        let socket = TcpStream::connect(address).await;
        let socket = socket.map_err(|error| format!("server {address}: {error}"))?;
        socket.set_nodelay(true)?;
        connections.spawn(talk(socket, bench.clone(), number, Arc::clone(&shared), clock));
    }
    let begin = clock.now();
    progress(&shared, clock, begin, span).await;
    shared.stop.store(true, Ordering::Relaxed);
    let span = clock.now().since(begin);
    let mut tally = Tally::over(span);
    while let Some(ended) = connections.join_next().await {
        tally.add(&ended?.map_err(|error| format!("server {address}: {error}"))?);
    }
    Ok(tally)
}

/// A line each second, where somebody looks.
async fn progress(shared: &Shared, clock: SystemClock, begin: Timestamp, span: Duration) {
    let looked_at = std::io::stderr().is_terminal();
    let mut before = 0;
    loop {
        let left = span.saturating_sub(clock.now().since(begin));
        tokio::time::sleep(left.min(Duration::from_secs(1))).await;
        let passed = clock.now().since(begin);
        if looked_at {
            let now = shared.answered.load(Ordering::Relaxed);
            eprint!(
                "\r{:>4} of {} s {:>14}/s ",
                passed.as_secs(),
                span.as_secs(),
                grouped(now - before)
            );
            before = now;
        }
        if passed >= span {
            if looked_at {
                eprint!("\r{:40}\r", "");
            }
            return;
        }
    }
}

async fn talk(
    mut socket: TcpStream,
    bench: Bench,
    number: u64,
    shared: Arc<Shared>,
    clock: SystemClock,
) -> std::io::Result<Tally> {
    let (mut tally, mut keys) = (Tally::default(), Keys(number.wrapping_mul(0x9e37_79b9) | 1));
    let (mut out, mut input) = (Vec::new(), Vec::with_capacity(64 * 1024));
    let token = bench.token.as_deref();
    let depth = if bench.protocol == Speaks::Http { 1 } else { bench.pipeline };
    if let Some(greeting) = wire::greeting(bench.protocol, token) {
        socket.write_all(&greeting).await?;
        read(&mut socket, &bench, &mut input, 1, |_| {}).await?;
    }
    while !shared.stop.load(Ordering::Relaxed) {
        out.clear();
        for _ in 0..depth {
            wire::question(bench.protocol, &bench.limit, token, keys.next(bench.keys), &mut out);
        }
        let sent = clock.now();
        socket.write_all(&out).await?;
        let saw = |said| tally.saw(said, clock.now().since(sent).as_micros() as u64);
        read(&mut socket, &bench, &mut input, usize::from(depth), saw).await?;
        shared.answered.fetch_add(u64::from(depth), Ordering::Relaxed);
    }
    Ok(tally)
}

/// Reads so many answers.
async fn read(
    socket: &mut TcpStream,
    bench: &Bench,
    input: &mut Vec<u8>,
    mut answers: usize,
    mut saw: impl FnMut(wire::Said),
) -> std::io::Result<()> {
    let mut at = 0;
    while answers > 0 {
        if let Some((said, length)) = wire::answer(bench.protocol, &input[at..]) {
            saw(said);
            at += length;
            answers -= 1;
        } else if socket.read_buf(input).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    input.drain(..at);
    Ok(())
}

/// Random enough keys, by a linear congruence: the load must not wait for its dice.
struct Keys(u64);

impl Keys {
    fn next(&mut self, keys: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % keys
    }
}
