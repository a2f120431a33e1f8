//! Tests of the stores' answers after real time has passed. They are about the real clock, so they
//! sleep. All cases sleep at the same time, each with its own clock: the readings of one case must
//! not hide a mistake in the first reading of another.

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

/// How far a store's clock may be from the operating system's.
const TOLERANCE: Duration = Duration::from_millis(2);

/// One limit on one store, for one key.
trait Subject: Send + Sync {
    fn hit(&self) -> Outcome;
    fn peek(&self) -> Outcome;
    /// Waits for a turn, if the store supports that.
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

/// This limit on each store that supports it, each with its own clock.
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

#[expect(clippy::disallowed_methods, reason = "what the stores' clock is compared with")]
fn real_now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the subject is real time")]
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

/// How long the key stays locked without further hits. A hit would push the elastic window.
fn lock(decision: &Outcome) -> Duration {
    decision.retry_after().unwrap().min(decision.reset_after())
}

/// Uses up the limit, lets real time pass, and checks that the announced wait is shorter by exactly
/// that time. `extra` is time that passed unnoticed by this process.
fn announced_wait_shrinks_by_real_time(subject: &dyn Subject, gap: &Gap) {
    while subject.hit().allowed() {}
    let first = timed(|| subject.peek());
    let extra = gap.pass();
    let second = timed(|| subject.peek());

    let announced = lock(&first.decision);
    let least = second.before - first.after + extra;
    let most = second.after - first.before + extra;
    if announced > most + TOLERANCE {
        let left = lock(&second.decision);
        assert!(!second.decision.allowed(), "allowed after {most:?} of {announced:?}");
        assert!(left + most + TOLERANCE >= announced, "{left:?} after {most:?} of {announced:?}");
        assert!(left + least <= announced + TOLERANCE, "{left:?} after {least:?} of {announced:?}");
    } else if announced + TOLERANCE < least {
        assert!(second.decision.allowed(), "denied after {least:?}, announced were {announced:?}");
    }
}

/// Uses up a limit of two, waits until it is fresh again, and hits from `threads` threads: exactly
/// two pass.
fn two_pass_after_the_gap(subject: &dyn Subject, gap: &Gap, threads: usize, period: Duration) {
    while subject.hit().allowed() {}
    gap.pass();
    let before = (real_now(), SystemClock::new().now());
    let admitted: usize = std::thread::scope(|scope| {
        let hits = || (0..3).filter(|_| subject.hit().allowed()).count();
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(hits)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let after = (real_now(), SystemClock::new().now());
    assert!(admitted >= 2, "{admitted} of 2 admitted");
    // More may pass when the machine is slow, or when a window of the wall clock ends.
    let window = |now: Timestamp| now.as_micros() / period.as_micros() as u64;
    if after.0 - before.0 < period / 10 && window(before.1) == window(after.1) {
        assert_eq!(admitted, 2);
    }
}

/// How time passes between two calls.
enum Gap {
    Sleep(Duration),
    Suspend(SuspendedClock, Suspend, Duration),
}

impl Gap {
    /// Time that passed beyond what `Instant` shows.
    fn pass(&self) -> Duration {
        match self {
            Gap::Sleep(span) => {
                sleep(*span);
                Duration::ZERO
            }
            Gap::Suspend(clock, how, span) => {
                clock.suspend(*how, *span);
                // A counter that stood still is noticed after a millisecond.
                sleep(TOLERANCE);
                *span
            }
        }
    }
}

/// The behaviour of a processor's counter while the machine is suspended.
#[derive(Clone, Copy, Debug)]
enum Suspend {
    GoesOn,
    StandsStill,
    BeginsAnew,
}

/// The real sources, plus what a simulated suspend adds to them.
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
            Suspend::GoesOn => {
                sources.ticks.fetch_add(span.as_nanos() as u64 * 3, Ordering::SeqCst)
            }
            Suspend::StandsStill => 0,
            Suspend::BeginsAnew => {
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

/// Fresh after 4/5 of the gap, also where it takes two periods.
fn short(algorithm: Algorithm, gap: Duration) -> (LimitBuilder, Duration) {
    let period = gap * 2 / 5;
    (Limit::new(2, period).algorithm(algorithm), period)
}

/// A limit whose keys are used up for longer than the gap.
fn long(algorithm: Algorithm, gap: Duration) -> LimitBuilder {
    Limit::new(2, gap * 4).algorithm(algorithm)
}

#[test]
fn stores_are_exact_after_idle_time() {
    let mut cases = Cases::default();
    for (idle, algorithm) in IDLE.iter().flat_map(|idle| Algorithm::ALL.map(|a| (*idle, a))) {
        for (store, subject) in subjects(&long(algorithm, idle), SystemClock::apart) {
            cases.start(format!("{store} {algorithm} {idle:?} wait"), move || {
                announced_wait_shrinks_by_real_time(&*subject, &Gap::Sleep(idle));
            });
        }
        for threads in [1, 4] {
            let (limit, period) = short(algorithm, idle);
            for (store, subject) in subjects(&limit, SystemClock::apart) {
                cases.start(format!("{store} {algorithm} {idle:?} {threads} threads"), move || {
                    two_pass_after_the_gap(&*subject, &Gap::Sleep(idle), threads, period);
                });
            }
        }
    }
    cases.finish();
}

#[test]
fn a_wait_takes_as_long_as_announced() {
    let mut cases = Cases::default();
    for algorithm in Algorithm::ALL {
        let seconds = if algorithm == Algorithm::SlidingWindow { 3 } else { 6 };
        let limit = Limit::new(1, Duration::from_secs(seconds)).algorithm(algorithm);
        for (store, subject) in subjects(&limit, SystemClock::apart) {
            cases.start(format!("{store} {algorithm}"), move || {
                assert!(subject.hit().allowed());
                let announced = timed(|| subject.peek());
                let retry_after = lock(&announced.decision);
                let Some(decision) = subject.wait(Duration::from_secs(20)) else { return };
                let took = real_now() - announced.before;
                assert!(decision.allowed());
                assert!(took + TOLERANCE >= retry_after, "{took:?} of {retry_after:?}");
                assert!(took < retry_after + Duration::from_secs(2), "{took:?} of {retry_after:?}");
            });
        }
    }
    cases.finish();
}

#[test]
fn time_in_suspend_counts() {
    let mut cases = Cases::default();
    let kinds = [Suspend::GoesOn, Suspend::StandsStill, Suspend::BeginsAnew];
    for (how, algorithm) in kinds.iter().flat_map(|how| Algorithm::ALL.map(|a| (*how, a))) {
        let span = Duration::from_secs(10);
        let mut clocks = vec![];
        let subjects = subjects(&long(algorithm, span), || {
            clocks.push(SuspendedClock::new());
            clocks[clocks.len() - 1].clone()
        });
        for ((store, subject), clock) in subjects.into_iter().zip(clocks) {
            let gap = Gap::Suspend(clock, how, span);
            cases.start(format!("{store} {algorithm} {how:?} wait"), move || {
                announced_wait_shrinks_by_real_time(&*subject, &gap);
            });
        }
    }
    cases.finish();
}
