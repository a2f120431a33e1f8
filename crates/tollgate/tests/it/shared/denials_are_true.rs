//! Tests that remembered denials equal the store's answers, whatever calls this process makes in
//! between.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate::shared::{InProcess, SharedItem, SharedLimiter, hit_all_shared};
use tollgate::{Algorithm, Decision, Error, ManualClock, Memory, Outcome, Source};

use super::failing::{Behaviour, Failing};

/// A call of one of five limiters on one of two keys.
#[derive(Clone, Copy, Debug)]
enum Call {
    Hit(u64),
    /// A hit that is executed, but whose answer comes too late.
    LostHit(u64),
    Peek(u64),
    Take(u64),
    Charge(u64),
    RefundLast,
    RefundUnits(u64),
    Set(u64),
    Reset,
    /// A hit on this key and the other key together.
    HitAll(u64),
    HitEach,
}

fn any_call() -> impl Strategy<Value = Call> {
    let cost = || 1_u64..8;
    prop_oneof![
        8 => cost().prop_map(Call::Hit),
        1 => cost().prop_map(Call::LostHit),
        1 => cost().prop_map(Call::Peek),
        1 => cost().prop_map(Call::Take),
        1 => cost().prop_map(Call::Charge),
        1 => Just(Call::RefundLast),
        1 => cost().prop_map(Call::RefundUnits),
        1 => (0_u64..12).prop_map(Call::Set),
        1 => Just(Call::Reset),
        1 => cost().prop_map(Call::HitAll),
        1 => Just(Call::HitEach),
    ]
}

/// A limiter whose guard remembers denials, and a limiter with the same counters that always asks
/// the store.
enum Subject {
    One(SharedLimiter<Failing>, SharedLimiter<Direct>),
    Several(SharedLimiter<Failing>, SharedLimiter<Direct>),
}

type Direct = InProcess<Memory<ManualClock>>;

/// Calls a method of the limiter that remembers denials, and ignores its result.
macro_rules! call {
    ($store:expr, $subject:expr, $limiter:ident => $call:expr) => {
        match $subject {
            Subject::One($limiter, _) => $store.run($call).map(|_| ()).expect("the store answers"),
            Subject::Several($limiter, _) => {
                $store.run($call).map(|_| ()).expect("the store answers")
            }
        }
    };
}

impl Subject {
    fn one(store: &Failing, limit: &str) -> Subject {
        let direct = SharedLimiter::new(store.directly(), "", limit).expect("the store answers");
        Subject::One(store.limiter(limit), direct)
    }

    fn several(store: &Failing, policy: &str) -> Subject {
        let direct = SharedLimiter::new(store.directly(), "", policy).expect("the store answers");
        Subject::Several(SharedLimiter::new(store, "", policy).expect("the store answers"), direct)
    }

    fn item<'a>(&'a self, key: &'a str, cost: u64) -> SharedItem<'a, Failing> {
        match self {
            Subject::One(one, _) => one.item(key, cost),
            Subject::Several(several, _) => several.item(key, cost),
        }
    }

    /// Returns the store's own answer to a hit.
    fn truth(&self, store: &Failing, key: &str, cost: u64) -> Vec<Outcome> {
        match self {
            Subject::One(_, one) => {
                store.run(one.peek_n(key, cost)).expect("the store answers").outcomes().to_vec()
            }
            Subject::Several(_, several) => {
                store.run(several.peek_n(key, cost)).expect("the store answers").outcomes().to_vec()
            }
        }
    }

    /// Charges without the guard, as another process would.
    fn charge_elsewhere(&self, store: &Failing, key: &str) {
        if let Subject::One(_, one) = self {
            store.run(one.charge(key, 1)).map(|_| ()).expect("the store answers");
        }
    }

    fn hit(&self, store: &Failing, key: &str, cost: u64) -> Result<Vec<Outcome>, Error> {
        match self {
            Subject::One(one, _) => {
                store.run(one.hit_n(key, cost)).map(|decision| decision.outcomes().to_vec())
            }
            Subject::Several(several, _) => {
                store.run(several.hit_n(key, cost)).map(|policy| policy.outcomes().to_vec())
            }
        }
    }

    /// Makes a call other than a plain hit. `last` is the last allowed hit of this limiter and key.
    fn call(&self, store: &Failing, key: &str, call: Call, last: Option<&[Outcome]>) {
        let other = if key == "a" { "b" } else { "a" };
        match (call, self) {
            (Call::LostHit(cost), _) => {
                store.behaves_as(Behaviour::Silent);
                // The result is an error or a remembered denial.
                drop(self.hit(store, key, cost));
                store.behaves_as(Behaviour::Answers);
            }
            (Call::HitAll(cost), _) => {
                let items = [self.item(key, cost), self.item(other, 1)];
                drop(store.run(hit_all_shared(&items, None)).expect("the store answers"));
            }
            (Call::HitEach, Subject::One(one, _)) => {
                drop(store.run(one.hit_each(&[key, other, key])).expect("the store answers"));
            }
            (Call::Take(cost), Subject::One(one, _)) => {
                store.run(one.take(key, cost)).map(|_| ()).expect("the store answers");
            }
            (Call::RefundLast, Subject::One(one, _)) => {
                let Some([last]) = last else { return };
                store
                    .run(one.refund_receipts(key, &[last.receipt()]))
                    .map(|_| ())
                    .expect("the store answers");
            }
            (Call::RefundLast, Subject::Several(several, _)) => {
                let Some(last) = last.and_then(|last| Decision::from_outcomes(last.to_vec()))
                else {
                    return;
                };
                store.run(several.refund(key, &last)).map(|_| ()).expect("the store answers");
            }
            (Call::Peek(cost), _) => call!(store, self, limiter => limiter.peek_n(key, cost)),
            (Call::Charge(units), _) => call!(store, self, limiter => limiter.charge(key, units)),
            (Call::RefundUnits(units), _) => {
                call!(store, self, limiter => limiter.refund_n(key, units));
            }
            (Call::Set(units), _) => call!(store, self, limiter => limiter.set(key, units)),
            (Call::Reset, _) => call!(store, self, limiter => limiter.reset(key)),
            (Call::Hit(_) | Call::HitEach | Call::Take(_), _) => {}
        }
    }
}

/// Returns two limiters of one limit, a limiter with another quota but the same counter, and two
/// policies with that limit. Denials of the second policy are never remembered.
fn subjects(store: &Failing, algorithm: &str) -> [Subject; 5] {
    let limit = format!("7/minute {algorithm} name=shared");
    [
        Subject::one(store, &limit),
        Subject::one(store, &limit),
        Subject::one(store, &format!("9/minute {algorithm} name=shared")),
        Subject::several(store, &format!("{limit}; 30/hour")),
        Subject::several(store, &format!("{limit}; 20/minute elastic-window")),
    ]
}

const REMEMBERED: [Algorithm; 7] = [
    Algorithm::Gcra,
    Algorithm::FixedWindow,
    Algorithm::FixedWindowPerKey,
    Algorithm::MovingWindow,
    Algorithm::SlidingWindow,
    Algorithm::TokenBucket,
    Algorithm::LeakyBucket,
];

type Timeline = Vec<(usize, bool, Call, u64)>;

fn any_timeline() -> impl Strategy<Value = Timeline> {
    let pause = prop_oneof![3 => Just(0_u64), 2 => 0..3_000_000_u64, 1 => 0..40_000_000_u64];
    vec((0_usize..5, any::<bool>(), any_call(), pause), 1..60)
}

/// The process that makes all calls other than hits.
#[derive(Clone, Copy, PartialEq)]
enum Others {
    ThisProcess,
    /// Another process, which only charges.
    AnotherProcess,
}

/// Runs the calls, and passes each remembered denial to `check`, together with the answer that the
/// store would give at that time. Returns the number of remembered denials.
fn walk(
    algorithm: Algorithm,
    timeline: &Timeline,
    others: Others,
    check: impl Fn(&[Outcome], &[Outcome]) -> Result<(), TestCaseError>,
) -> Result<u32, TestCaseError> {
    let store = Failing::with(|guard| guard.open_after(1000));
    let subjects = subjects(&store, algorithm.as_str());
    let mut last: HashMap<(usize, &str), Vec<Outcome>> = HashMap::new();
    let mut remembered = 0;
    for (index, first_key, call, pause) in timeline {
        let (subject, key) = (&subjects[*index], if *first_key { "a" } else { "b" });
        store.clock.advance(Duration::from_micros(*pause));
        match *call {
            Call::Hit(cost) => {
                let truth = subject.truth(&store, key, cost);
                let hit = subject.hit(&store, key, cost).expect("the store answers");
                if hit[0].source() == Source::DenialCache {
                    remembered += 1;
                    check(&hit, &truth)?;
                }
                if hit.iter().all(Outcome::allowed) {
                    last.insert((*index, key), hit);
                }
            }
            // The other process charges the limit itself, because a limit with another quota would
            // refill the shared counter at another rate.
            _ if others == Others::AnotherProcess => subjects[0].charge_elsewhere(&store, key),
            call => {
                let last = last.get(&(*index, key)).map(Vec::as_slice);
                subject.call(&store, key, call, last);
            }
        }
    }
    Ok(remembered)
}

/// Returns whether a remembered denial equals the store's answer. The log of a moving window stays
/// in the store, so the denial does not show which entries have left the window.
fn is_true(said: &Outcome, truth: &Outcome, algorithm: Algorithm) -> bool {
    let when = |d: &Outcome| (d.allowed(), d.limit(), d.retry_after(), d.reset_after());
    let units = |d: &Outcome| (d.used(), d.remaining());
    let log_has_moved = algorithm == Algorithm::MovingWindow && said.used() >= truth.used();
    when(said) == when(truth) && (log_has_moved || units(said) == units(truth))
}

fn run(check: impl Fn(Timeline) -> Result<(), TestCaseError>) {
    let config = Config { failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&any_timeline(), check);
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn remembered_denials_equal_the_answers_of_the_store_after_any_calls_of_this_process() {
    let remembered = Cell::new(0);
    run(|timeline| {
        for algorithm in REMEMBERED {
            let found = walk(algorithm, &timeline, Others::ThisProcess, |said, truth| {
                let mut both = said.iter().zip(truth);
                let same = both.all(|(said, truth)| is_true(said, truth, algorithm));
                prop_assert!(same, "{algorithm}:\nsaid  {said:?}\ntruth {truth:?}");
                Ok(())
            })?;
            remembered.set(remembered.get() + found);
        }
        Ok(())
    });
    assert!(remembered.get() > 100, "only {} answers from memory", remembered.get());
}

#[test]
fn remembered_denials_never_report_too_long_a_wait_if_other_processes_charge() {
    run(|timeline| {
        for algorithm in REMEMBERED {
            let _ = walk(algorithm, &timeline, Others::AnotherProcess, |said, truth| {
                let [said, truth] = [said, truth].map(|all| {
                    Decision::from_outcomes(all.to_vec()).expect("at least one outcome")
                });
                prop_assert!(!said.allowed() && !truth.allowed(), "{algorithm}: {truth:?}");
                let waits = (said.retry_after(), truth.retry_after());
                let short_enough = matches!(waits, (Some(said), Some(truth)) if said <= truth);
                prop_assert!(
                    short_enough,
                    "{algorithm}: {waits:?}\nsaid  {said:?}\ntruth {truth:?}"
                );
                Ok(())
            })?;
        }
        Ok(())
    });
}
