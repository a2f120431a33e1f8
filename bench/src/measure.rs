//! Measures time, CPU time, time spent waiting for a core, and resident memory.

use quanta::{Clock, Instant};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Barrier;
use std::time::Duration;

/// The costs of a piece of work.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) wall: Duration,
    /// CPU time of the thread: does not grow while another process has the core.
    pub(crate) cpu: Duration,
    /// Time during which the thread could have run but had no core.
    pub(crate) waited: Duration,
}

impl Taken {
    /// Whether the thread lost a noticeable part of its time to other processes. A thread that
    /// waits for a lock is not disturbed: the lock is the contender's.
    pub(crate) fn disturbed(&self) -> bool {
        self.waited > self.wall / 32
    }
}

/// Runs `work` and measures it.
pub(crate) fn taken<T>(work: impl FnOnce() -> T) -> (T, Taken) {
    let waited = waited_for_core();
    let (start, cpu) = (Instant::now(), thread_cpu());
    let result = work();
    let taken = Taken {
        cpu: thread_cpu().saturating_sub(cpu),
        wall: start.elapsed(),
        waited: waited_for_core().saturating_sub(waited),
    };
    (result, taken)
}

/// Runs two pieces of work at the same time.
pub(crate) fn taken_by_two<T: Send>(work: [&(dyn Fn() -> T + Sync); 2]) -> Option<[(T, Taken); 2]> {
    let start = Barrier::new(2);
    let run = |work: &(dyn Fn() -> T + Sync)| {
        start.wait();
        taken(work)
    };
    let [first, second] = work;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(second));
        let mine = run(first);
        Some([mine, other.join().ok()?])
    })
}

fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// How long this thread was ready to run without a core, as the kernel counts it; 0 where it does
/// not. Waiting for a lock is not included.
pub(crate) fn waited_for_core() -> Duration {
    waited_by("/proc/thread-self/schedstat")
}

/// The same for another thread, by its file.
pub(crate) fn waited_by(file: &str) -> Duration {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let nanos = text.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Resident memory of this process in bytes; 0 where the kernel does not report it.
pub(crate) fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    1024 * kilobytes.unwrap_or(0)
}

/// The clock of single calls: reads the time stamp counter without converting it.
pub(crate) fn tick_clock() -> Clock {
    Clock::new()
}
