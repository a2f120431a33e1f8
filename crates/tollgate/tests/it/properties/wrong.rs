//! Machines with known mistakes. Each checker must detect the mistake that it is for, on the random
//! timelines that the real machines pass.

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};
use tollgate::algorithm::Op;
use tollgate::{Algorithm, Limit, Receipt, Timestamp};

use super::bound::{never_more_than_the_bound, never_more_than_the_capacity_at_once};
use super::fields::{denied_changes_nothing, remaining_is_truthful};
use super::retry::retry_is_exact;
use super::{Answer, Key, Shape, Subject, Timeline, config, each, hits, period, shape};

/// A machine that only hits and peeks, made of four functions.
trait Simple: Clone + PartialEq + std::fmt::Debug {
    fn capacity(&self) -> u64;
    /// Lets time pass. A correct machine does not change its state for that.
    fn advance(&mut self, now: u64);
    /// The largest cost that passes.
    fn room(&self, now: u64) -> u64;
    fn wait(&self, now: u64, cost: u64) -> u64;
    fn charge(&mut self, now: u64, cost: u64);
}

#[derive(Clone, Debug, PartialEq)]
struct Wrong<M>(M);

impl<M: Simple> Subject for Wrong<M> {
    fn apply(&mut self, now: u64, op: Op) -> Answer {
        let machine = &mut self.0;
        let (cost, write) = match op {
            Op::Hit(cost) => (cost, true),
            Op::Take(cost) => (cost.min(1), true),
            Op::Peek(cost) => (cost, false),
            _ => (0, false),
        };
        let untouched = machine.clone();
        machine.advance(now);
        let allowed = cost <= machine.room(now);
        let retry = if allowed { Some(0) } else { Some(machine.wait(now, cost)) };
        let charged = if allowed && write { cost } else { 0 };
        machine.charge(now, charged);
        let (limit, remaining) = (machine.capacity(), machine.room(now));
        if !write {
            *machine = untouched;
        }
        Answer {
            allowed,
            limit,
            used: limit.saturating_sub(remaining),
            remaining,
            retry: retry.filter(|_| cost <= limit),
            reset: 0,
            charged,
            receipt: Receipt {
                units: charged,
                at: Timestamp::from_micros(now),
                mark: 0,
                source: tollgate::Source::Store,
            },
        }
    }
}

/// Counts from `now - tolerance` (throttlecrab 0.4.40): nearly two bursts at one instant. Times in
/// parts of 1/n of a microsecond.
#[derive(Clone, Debug, PartialEq)]
struct BackdatedGcra {
    n: u64,
    p: u64,
    b: u64,
    tat: u64,
}

impl Simple for BackdatedGcra {
    fn capacity(&self) -> u64 {
        self.b
    }
    fn advance(&mut self, now: u64) {
        self.tat = self.tat.max(now * self.n - self.b * self.p);
    }
    fn room(&self, now: u64) -> u64 {
        (now * self.n + self.b * self.p).saturating_sub(self.tat) / self.p
    }
    fn wait(&self, now: u64, cost: u64) -> u64 {
        (self.tat + cost * self.p - self.b * self.p - now * self.n).div_ceil(self.n)
    }
    fn charge(&mut self, _now: u64, cost: u64) {
        self.tat += cost * self.p;
    }
}

/// Refills whole tokens and drops the rest of the time, at every call.
#[derive(Clone, Debug, PartialEq)]
struct DroppingBucket {
    n: u64,
    p: u64,
    b: u64,
    tokens: u64,
    time: u64,
}

impl Simple for DroppingBucket {
    fn capacity(&self) -> u64 {
        self.b
    }
    fn advance(&mut self, now: u64) {
        self.tokens = self.b.min(self.tokens + (now - self.time) * self.n / self.p);
        self.time = now;
    }
    fn room(&self, _now: u64) -> u64 {
        self.tokens
    }
    fn wait(&self, _now: u64, cost: u64) -> u64 {
        ((cost - self.tokens) * self.p).div_ceil(self.n)
    }
    fn charge(&mut self, _now: u64, cost: u64) {
        self.tokens -= cost;
    }
}

/// A sliding window on the clock's grid that rounds the weighted count down: one per day passes
/// twice around midnight.
#[derive(Clone, Debug, PartialEq)]
struct RoundedSlidingWindow {
    n: u64,
    p: u64,
    window: u64,
    previous: u64,
    current: u64,
}

impl Simple for RoundedSlidingWindow {
    fn capacity(&self) -> u64 {
        self.n
    }
    fn advance(&mut self, now: u64) {
        let passed = now / self.p - self.window;
        if passed > 0 {
            self.previous = if passed == 1 { self.current } else { 0 };
            (self.window, self.current) = (now / self.p, 0);
        }
    }
    fn room(&self, now: u64) -> u64 {
        let fading = self.previous * (self.p - now % self.p) / self.p;
        self.n.saturating_sub(self.current + fading)
    }
    fn wait(&self, _now: u64, _cost: u64) -> u64 {
        self.p
    }
    fn charge(&mut self, _now: u64, cost: u64) {
        self.current += cost;
    }
}

/// A log keyed by time: the last of several hits in one microsecond replaces the others, as in
/// Hammer.
#[derive(Clone, Debug, PartialEq)]
struct CollapsingLog {
    n: u64,
    p: u64,
    log: Vec<(u64, u64)>,
}

impl Simple for CollapsingLog {
    fn capacity(&self) -> u64 {
        self.n
    }
    fn advance(&mut self, now: u64) {
        self.log.retain(|(at, _)| at + self.p > now);
    }
    fn room(&self, _now: u64) -> u64 {
        self.n.saturating_sub(self.log.iter().map(|(_, units)| units).sum())
    }
    fn wait(&self, _now: u64, _cost: u64) -> u64 {
        self.p
    }
    fn charge(&mut self, now: u64, cost: u64) {
        if cost > 0 {
            self.log.retain(|(at, _)| *at != now);
            self.log.push((now, cost));
        }
    }
}

/// A real key that reports a wrong wait, or too much remaining.
#[derive(Clone, Debug)]
struct Lying {
    key: Key,
    lie: fn(Answer) -> Answer,
}

impl PartialEq for Lying {
    fn eq(&self, other: &Lying) -> bool {
        self.key == other.key
    }
}

impl Subject for Lying {
    fn apply(&mut self, now: u64, op: Op) -> Answer {
        (self.lie)(self.key.apply(now, op))
    }
}

/// Some timeline must show the mistake soon. The checker's message must contain `told`, so that a
/// panic does not count.
fn assert_seen(told: &str, check: impl Fn(Shape, &Timeline) -> Result<(), String>) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config(256), rng);
    let run = runner.run(&(shape(), hits()), |(shape, timeline)| {
        check(shape, &timeline).map_err(TestCaseError::fail)
    });
    match run {
        Err(TestError::Fail(why, _)) if why.message().contains(told) => {}
        other => panic!("expected {told:?}, found {other:?}"),
    }
}

fn numbers(limit: &Limit) -> (u64, u64, u64) {
    (limit.quota(), period(limit), limit.burst())
}

fn dropping_bucket(limit: &Limit) -> Wrong<DroppingBucket> {
    let (n, p, b) = numbers(limit);
    Wrong(DroppingBucket { n, p, b, tokens: b, time: 0 })
}

fn backdated(limit: &Limit) -> Wrong<BackdatedGcra> {
    let (n, p, b) = numbers(limit);
    Wrong(BackdatedGcra { n, p, b, tat: 0 })
}

#[test]
fn two_bursts_at_one_instant_are_detected() {
    assert_seen(" at 17", |shape, timeline| {
        let limit = shape.limit(Algorithm::Gcra);
        let seen = timeline.walk(&limit, backdated(&limit));
        never_more_than_the_capacity_at_once(limit.burst(), &seen)
    });
}

#[test]
fn more_than_the_rate_is_detected() {
    assert_seen("units within", |shape, timeline| {
        let limit = shape.limit(Algorithm::Gcra);
        never_more_than_the_bound(&limit, &timeline.walk(&limit, backdated(&limit)))
    });
}

#[test]
fn a_window_on_the_clock_that_rounds_down_is_detected() {
    assert_seen("units within", |shape, timeline| {
        let limit = Shape { quota: 1, ..shape }.limit(Algorithm::SlidingWindow);
        let (n, p, _) = numbers(&limit);
        let subject = RoundedSlidingWindow { n, p, window: 0, previous: 0, current: 0 };
        never_more_than_the_bound(&limit, &timeline.walk(&limit, Wrong(subject)))
    });
}

#[test]
fn hits_lost_within_a_microsecond_are_detected() {
    assert_seen(" at 17", |shape, timeline| {
        let limit = shape.limit(Algorithm::MovingWindow);
        let (n, p, _) = numbers(&limit);
        let seen = timeline.walk(&limit, Wrong(CollapsingLog { n, p, log: Vec::new() }));
        never_more_than_the_capacity_at_once(limit.burst(), &seen)
    });
}

#[test]
fn a_dropped_remainder_is_detected() {
    assert_seen("a denial left a trace", |shape, timeline| {
        let limit = shape.limit(Algorithm::TokenBucket);
        each(&timeline.walk(&limit, dropping_bucket(&limit)), denied_changes_nothing)
    });
}

#[test]
fn a_wait_one_microsecond_off_is_detected() {
    let early: fn(Answer) -> Answer = |answer| Answer {
        retry: answer.retry.map(|wait| if wait > 1 { wait - 1 } else { wait }),
        ..answer
    };
    let late: fn(Answer) -> Answer = |answer| Answer {
        retry: answer.retry.map(|wait| if wait > 0 { wait + 1 } else { 0 }),
        ..answer
    };
    let lies = [(early, "when the wait is over"), (late, "one microsecond before")];
    for (lie, told) in lies {
        for algorithm in Algorithm::ALL {
            assert_seen(told, |shape, timeline| {
                let limit = shape.limit(algorithm);
                let subject = Lying { key: Key::new(&limit), lie };
                each(&timeline.walk(&limit, subject), retry_is_exact)
            });
        }
    }
}

#[test]
fn a_wait_for_a_cost_that_never_passes_is_detected() {
    let made_up: fn(Answer) -> Answer =
        |answer| Answer { retry: answer.retry.or(Some(1_000_000)), ..answer };
    assert_seen("a wait for a cost that never passes", |shape, timeline| {
        let limit = shape.limit(Algorithm::Gcra);
        let subject = Lying { key: Key::new(&limit), lie: made_up };
        each(&timeline.walk(&limit, subject), retry_is_exact)
    });
}

#[test]
fn a_remaining_that_is_one_off_is_detected() {
    let one_off: fn(Answer) -> Answer = |answer| match answer.remaining {
        0 => answer,
        left => Answer { remaining: left - 1, used: answer.used + 1, ..answer },
    };
    assert_seen("more passes than remains", |shape, timeline| {
        let limit = shape.limit(Algorithm::LeakyBucket);
        let subject = Lying { key: Key::new(&limit), lie: one_off };
        each(&timeline.walk(&limit, subject), remaining_is_truthful)
    });
}
