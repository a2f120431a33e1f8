//! Tests of the stores' answers after real idle time. They test the real clock, so they sleep. All
//! cases sleep at the same time. Each case has its own clock, because a reading by one case could
//! hide a mistake in the first reading of another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::counter::{Counter, Sources};
use super::{Processor, SystemClock};
use crate::{Algorithm, Atomic, Clock, Direct, Limit, LimitBuilder, Memory, Outcome, Timestamp};

const IDLE: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// The largest permitted difference between a store's clock and the operating system's clock.
const TOLERANCE: Duration = Duration::from_millis(2);

/// One limit on one store, for one key.
trait Subject: Send + Sync {
    fn hit(&self) -> Outcome;
    fn peek(&self) -> Outcome;
    /// Waits until a hit is allowed, if the store supports that.
    fn wait(&self, timeout: Duration) -> Option<Outcome>;
}

macro_rules! keyed_subject {
    ($store:ident) => {
        impl<C: Clock + 'static> Subject for crate::Limiter<$store<C>> {
            fn hit(&self) -> Outcome {
                *crate::Limiter::hit(self, "key").headline()
            }
            fn peek(&self) -> Outcome {
                *crate::Limiter::peek(self, "key").headline()
            }
            fn wait(&self, timeout: Duration) -> Option<Outcome> {
                Some(*self.wait_blocking("key", 1, timeout).headline())
            }
        }
    };
}

keyed_subject!(Memory);
keyed_subject!(Atomic);

impl<C: Clock> Subject for Direct<C> {
    fn hit(&self) -> Outcome {
        Direct::hit(self)
    }
    fn peek(&self) -> Outcome {
        Direct::peek(self)
    }
    fn wait(&self, _: Duration) -> Option<Outcome> {
        None
    }
}

/// Returns this limit on each store that supports it. Each store has its own clock.
fn subjects<C: Clock + 'static>(
    limit: &LimitBuilder,
    mut clock: impl FnMut() -> C,
) -> Vec<(&'static str, Box<dyn Subject>)> {
    let limit = limit.clone().build().unwrap();
    let memory = Memory::builder().clock(clock()).build().limiter(limit.clone()).unwrap();
    let mut all: Vec<(_, Box<dyn Subject>)> = vec![("Memory", Box::new(memory))];
    if let Ok(atomic) = Atomic::builder().clock(clock()).build().limiter(limit.clone()) {
        all.push(("Atomic", Box::new(atomic)));
    }
    if let Ok(direct) = Direct::with_clock(limit, clock()) {
        all.push(("Direct", Box::new(direct)));
    }
    all
}

#[expect(clippy::disallowed_methods, reason = "the stores' clock is compared with this clock")]
fn real_now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the tests are about real time")]
fn sleep(span: Duration) {
    std::thread::sleep(span);
}

/// A decision, and the instants before and after it.
struct Timed {
    decision: Outcome,
    before: Instant,
    after: Instant,
}

fn timed(call: impl FnOnce() -> Outcome) -> Timed {
    let before = real_now();
    let decision = call();
    Timed { decision, before, after: real_now() }
}

/// Returns how long the key stays denied if there is no other hit. A denied hit would extend an
/// elastic window, so the wait is at most the time until the key is fresh.
fn lock(decision: &Outcome) -> Duration {
    decision.retry_after().unwrap().min(decision.reset_after())
}

/// Uses up the limit, lets real time elapse, and checks that the reported wait is shorter by
/// exactly that time. `extra` is time that elapsed without being visible to this process.
fn reported_wait_shrinks_by_real_time(subject: &dyn Subject, gap: &Gap) {
    while subject.hit().allowed() {}
    let first = timed(|| subject.peek());
    let extra = gap.elapse();
    let second = timed(|| subject.peek());

    let reported = lock(&first.decision);
    let least = second.before - first.after + extra;
    let most = second.after - first.before + extra;
    if reported > most + TOLERANCE {
        let left = lock(&second.decision);
        assert!(!second.decision.allowed(), "allowed after {most:?} of a wait of {reported:?}");
        assert!(
            left + most + TOLERANCE >= reported,
            "{left:?} left after {most:?} of {reported:?}"
        );
        assert!(
            left + least <= reported + TOLERANCE,
            "{left:?} left after {least:?} of {reported:?}"
        );
    } else if reported + TOLERANCE < least {
        assert!(
            second.decision.allowed(),
            "denied after {least:?}, but the reported wait was {reported:?}"
        );
    }
}

/// Uses up a limit of two, waits until the key is fresh again, and hits from `threads` threads.
/// Exactly two hits must pass.
fn two_pass_after_the_gap(subject: &dyn Subject, gap: &Gap, threads: usize, period: Duration) {
    while subject.hit().allowed() {}
    gap.elapse();
    let before = (real_now(), SystemClock::new().now());
    let admitted: usize = std::thread::scope(|scope| {
        let hits = || (0..3).filter(|_| subject.hit().allowed()).count();
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(hits)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let after = (real_now(), SystemClock::new().now());
    assert!(admitted >= 2, "only {admitted} of 2 hits admitted");
    // More hits may pass if the machine is slow, or if a window of the wall clock ends meanwhile.
    let window = |now: Timestamp| now.as_micros() / period.as_micros() as u64;
    if after.0 - before.0 < period / 10 && window(before.1) == window(after.1) {
        assert_eq!(admitted, 2);
    }
}

/// The way in which time elapses between two calls.
enum Gap {
    Sleep(Duration),
    Suspend(SuspendedClock, Suspend, Duration),
}

impl Gap {
    /// Lets the time elapse. Returns the part of it that `Instant` does not show.
    fn elapse(&self) -> Duration {
        match self {
            Gap::Sleep(span) => {
                sleep(*span);
                Duration::ZERO
            }
            Gap::Suspend(clock, how, span) => {
                clock.suspend(*how, *span);
                // The clock detects within a millisecond that the counter stood still.
                sleep(TOLERANCE);
                *span
            }
        }
    }
}

/// The behaviour of a processor's counter while the machine is suspended.
#[derive(Clone, Copy, Debug)]
enum Suspend {
    Continues,
    StandsStill,
    Restarts,
}

/// The real time sources, and the amounts that a simulated suspend adds to their values.
struct Suspendable {
    real: Processor,
    ticks: AtomicU64,
    os_micros: AtomicU64,
}

impl Sources for Suspendable {
    fn ticks(&self) -> u64 {
        self.real.ticks().wrapping_add(self.ticks.load(Ordering::SeqCst))
    }

    fn os_micros(&self) -> u64 {
        self.real.os_micros() + self.os_micros.load(Ordering::SeqCst)
    }
}

/// The clock of a machine that can be suspended.
#[derive(Clone)]
struct SuspendedClock(Arc<Counter<Suspendable>>);

impl std::fmt::Debug for SuspendedClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SuspendedClock")
    }
}

impl SuspendedClock {
    fn new() -> SuspendedClock {
        let (real, speed) = Processor::start();
        let (ticks, os_micros) = (AtomicU64::new(0), AtomicU64::new(0));
        SuspendedClock(Arc::new(Counter::new(Suspendable { real, ticks, os_micros }, speed)))
    }

    fn suspend(&self, how: Suspend, span: Duration) {
        let sources = self.0.sources();
        sources.os_micros.fetch_add(span.as_micros() as u64, Ordering::SeqCst);
        match how {
            // The counter makes about three ticks per nanosecond.
            Suspend::Continues => {
                sources.ticks.fetch_add(span.as_nanos() as u64 * 3, Ordering::SeqCst)
            }
            Suspend::StandsStill => 0,
            Suspend::Restarts => {
                sources.ticks.swap(sources.real.ticks().wrapping_neg(), Ordering::SeqCst)
            }
        };
    }
}

impl Clock for SuspendedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.micros())
    }
}

/// Runs all cases at the same time.
#[derive(Default)]
struct Cases(Vec<(String, std::thread::JoinHandle<()>)>);

impl Cases {
    fn start(&mut self, name: String, case: impl FnOnce() + Send + 'static) {
        let thread = std::thread::Builder::new().stack_size(512 << 10).name(name.clone());
        self.0.push((name, thread.spawn(case).unwrap()));
    }

    fn finish(self) {
        let failed = |(name, thread): (String, std::thread::JoinHandle<()>)| {
            thread.join().is_err().then_some(name)
        };
        let failed: Vec<_> = self.0.into_iter().filter_map(failed).collect();
        assert!(failed.is_empty(), "{} failed: {failed:#?}", failed.len());
    }
}

/// Returns a limit whose keys are fresh after 4/5 of the gap, even if the algorithm needs two
/// periods for that.
fn short(algorithm: Algorithm, gap: Duration) -> (LimitBuilder, Duration) {
    let period = gap * 2 / 5;
    (Limit::new(2, period).algorithm(algorithm), period)
}

/// Returns a limit whose keys stay used up for longer than the gap.
fn long(algorithm: Algorithm, gap: Duration) -> LimitBuilder {
    Limit::new(2, gap * 4).algorithm(algorithm)
}

#[test]
fn stores_are_exact_after_idle_time() {
    let mut cases = Cases::default();
    for (idle, algorithm) in IDLE.iter().flat_map(|idle| Algorithm::PERIODIC.map(|a| (*idle, a))) {
        for (store, subject) in subjects(&long(algorithm, idle), SystemClock::apart) {
            cases.start(format!("{store}, {algorithm}: reported wait after {idle:?}"), move || {
                reported_wait_shrinks_by_real_time(&*subject, &Gap::Sleep(idle));
            });
        }
        for threads in [1, 4] {
            let (limit, period) = short(algorithm, idle);
            for (store, subject) in subjects(&limit, SystemClock::apart) {
                cases.start(
                    format!("{store}, {algorithm}: hits by {threads} threads after {idle:?}"),
                    move || {
                        two_pass_after_the_gap(&*subject, &Gap::Sleep(idle), threads, period);
                    },
                );
            }
        }
    }
    cases.finish();
}

#[test]
fn a_wait_lasts_as_long_as_reported() {
    let mut cases = Cases::default();
    for algorithm in Algorithm::PERIODIC {
        let seconds = if algorithm == Algorithm::SlidingWindow { 3 } else { 6 };
        let limit = Limit::new(1, Duration::from_secs(seconds)).algorithm(algorithm);
        for (store, subject) in subjects(&limit, SystemClock::apart) {
            cases.start(format!("{store} {algorithm}"), move || {
                assert!(subject.hit().allowed());
                let reported = timed(|| subject.peek());
                let retry_after = lock(&reported.decision);
                let Some(decision) = subject.wait(Duration::from_secs(20)) else { return };
                let took = real_now() - reported.before;
                assert!(decision.allowed());
                assert!(
                    took + TOLERANCE >= retry_after,
                    "waited for {took:?} instead of {retry_after:?}"
                );
                assert!(
                    took < retry_after + Duration::from_secs(2),
                    "waited for {took:?} instead of {retry_after:?}"
                );
            });
        }
    }
    cases.finish();
}

#[test]
fn time_in_which_the_machine_is_suspended_counts() {
    let mut cases = Cases::default();
    let kinds = [Suspend::Continues, Suspend::StandsStill, Suspend::Restarts];
    for (how, algorithm) in kinds.iter().flat_map(|how| Algorithm::PERIODIC.map(|a| (*how, a))) {
        let span = Duration::from_secs(10);
        let mut clocks = vec![];
        let subjects = subjects(&long(algorithm, span), || {
            clocks.push(SuspendedClock::new());
            clocks[clocks.len() - 1].clone()
        });
        for ((store, subject), clock) in subjects.into_iter().zip(clocks) {
            let gap = Gap::Suspend(clock, how, span);
            cases.start(
                format!("{store}, {algorithm}: reported wait after a suspend ({how:?})"),
                move || {
                    reported_wait_shrinks_by_real_time(&*subject, &gap);
                },
            );
        }
    }
    cases.finish();
}
