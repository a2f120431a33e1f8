//! Machines with known mistakes. Each checker must detect its mistake on random timelines for which
//! it accepts the real machines.

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};
use tollgate::algorithm::Op;
use tollgate::{Algorithm, Limit, Receipt, Timestamp};

use super::bound::{at_most_the_bound_in_any_span, at_most_the_capacity_at_one_instant};
use super::fields::{denied_changes_nothing, remaining_is_correct};
use super::retry::retry_is_exact;
use super::{Answer, Key, Shape, Subject, Timeline, config, each, hits, period, shape};

/// A simple machine that supports only hits, takes of one unit, and peeks.
trait Simple: Clone + PartialEq + std::fmt::Debug {
    fn capacity(&self) -> u64;
    /// Updates the state to the current time. A correct machine does not need that.
    fn advance(&mut self, now: u64);
    /// Returns the largest cost that passes.
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

/// A GCRA that counts from `now - tolerance` (as throttlecrab 0.4.40 did) and admits nearly two
/// bursts at one instant. Times are in units of 1/n microseconds.
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

/// A token bucket that at every call refills only whole tokens and drops the rest of the time.
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

/// A sliding window that is aligned to the clock and rounds the weighted count down, so that a
/// limit of one per day admits two hits around midnight.
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

/// A moving window whose log is keyed by time. As in Hammer, the last of several hits in one
/// microsecond replaces the others.
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

/// A real key whose answers are falsified, for instance by a wrong wait.
#[derive(Clone, Debug)]
struct Falsified {
    key: Key,
    falsify: fn(Answer) -> Answer,
}

impl PartialEq for Falsified {
    fn eq(&self, other: &Falsified) -> bool {
        self.key == other.key
    }
}

impl Subject for Falsified {
    fn apply(&mut self, now: u64, op: Op) -> Answer {
        (self.falsify)(self.key.apply(now, op))
    }
}

/// Asserts that the check fails on one of the random timelines. Its message must contain
/// `expected`, so that a panic does not count as detection.
fn assert_detected(expected: &str, check: impl Fn(Shape, &Timeline) -> Result<(), String>) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config(256), rng);
    let run = runner.run(&(shape(), hits()), |(shape, timeline)| {
        check(shape, &timeline).map_err(TestCaseError::fail)
    });
    match run {
        Err(TestError::Fail(why, _)) if why.message().contains(expected) => {}
        other => panic!("expected {expected:?}, found {other:?}"),
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
    assert_detected(" at 17", |shape, timeline| {
        let limit = shape.limit(Algorithm::Gcra);
        let seen = timeline.walk(&limit, backdated(&limit));
        at_most_the_capacity_at_one_instant(limit.burst(), &seen)
    });
}

#[test]
fn more_units_than_the_bound_are_detected() {
    assert_detected("units within", |shape, timeline| {
        let limit = shape.limit(Algorithm::Gcra);
        at_most_the_bound_in_any_span(&limit, &timeline.walk(&limit, backdated(&limit)))
    });
}

#[test]
fn a_sliding_window_that_rounds_down_is_detected() {
    assert_detected("units within", |shape, timeline| {
        let limit = Shape { quota: 1, ..shape }.limit(Algorithm::SlidingWindow);
        let (n, p, _) = numbers(&limit);
        let subject = RoundedSlidingWindow { n, p, window: 0, previous: 0, current: 0 };
        at_most_the_bound_in_any_span(&limit, &timeline.walk(&limit, Wrong(subject)))
    });
}

#[test]
fn lost_hits_within_a_microsecond_are_detected() {
    assert_detected(" at 17", |shape, timeline| {
        let limit = shape.limit(Algorithm::MovingWindow);
        let (n, p, _) = numbers(&limit);
        let seen = timeline.walk(&limit, Wrong(CollapsingLog { n, p, log: Vec::new() }));
        at_most_the_capacity_at_one_instant(limit.burst(), &seen)
    });
}

#[test]
fn a_bucket_that_drops_fractions_of_tokens_is_detected() {
    assert_detected("a denial changed the key", |shape, timeline| {
        let limit = shape.limit(Algorithm::TokenBucket);
        each(&timeline.walk(&limit, dropping_bucket(&limit)), denied_changes_nothing)
    });
}

#[test]
fn a_wait_that_is_wrong_by_one_microsecond_is_detected() {
    let early: fn(Answer) -> Answer = |answer| Answer {
        retry: answer.retry.map(|wait| if wait > 1 { wait - 1 } else { wait }),
        ..answer
    };
    let late: fn(Answer) -> Answer = |answer| Answer {
        retry: answer.retry.map(|wait| if wait > 0 { wait + 1 } else { 0 }),
        ..answer
    };
    let falsified = [(early, "when the wait is over"), (late, "one microsecond before")];
    for (falsify, expected) in falsified {
        for algorithm in Algorithm::PERIODIC {
            assert_detected(expected, |shape, timeline| {
                let limit = shape.limit(algorithm);
                let subject = Falsified { key: Key::new(&limit), falsify };
                each(&timeline.walk(&limit, subject), retry_is_exact)
            });
        }
    }
}

#[test]
fn a_wait_for_a_cost_that_never_passes_is_detected() {
    let made_up: fn(Answer) -> Answer =
        |answer| Answer { retry: answer.retry.or(Some(1_000_000)), ..answer };
    assert_detected("a wait for a cost that never passes", |shape, timeline| {
        let limit = shape.limit(Algorithm::Gcra);
        let subject = Falsified { key: Key::new(&limit), falsify: made_up };
        each(&timeline.walk(&limit, subject), retry_is_exact)
    });
}

#[test]
fn a_remaining_that_is_wrong_by_one_is_detected() {
    let one_off: fn(Answer) -> Answer = |answer| match answer.remaining {
        0 => answer,
        left => Answer { remaining: left - 1, used: answer.used + 1, ..answer },
    };
    assert_detected("more passes than remains", |shape, timeline| {
        let limit = shape.limit(Algorithm::LeakyBucket);
        let subject = Falsified { key: Key::new(&limit), falsify: one_off };
        each(&timeline.walk(&limit, subject), remaining_is_correct)
    });
}
