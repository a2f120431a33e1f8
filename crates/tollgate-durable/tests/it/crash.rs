//! A store that loses its memory at any moment, at the default level. Only its disk remains.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::{AnyMachine, AnyState, Op};
use tollgate::{Algorithm, Limit, ManualClock, Timestamp};
use tollgate_durable::{Durable, Level};
use tollgate_testkit::block_on;

use crate::disk::Disk;

const START: Timestamp = Timestamp::from_micros(1_790_000_000_123_457);

/// Commits happen only when a call waits for one or a test requests one.
fn open(disk: &Disk, clock: &ManualClock, level: Level) -> Durable {
    let builder = disk.builder().level(level).clock(clock.clone());
    let store = builder.interval(Duration::from_secs(20)).open();
    store.unwrap_or_else(|error| panic!("{error}"))
}

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Hit(u64),
    Take(u64),
    Write,
    Crash,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => prop_oneof![0_u64..2_000, 0_u64..2_000_000].prop_map(Event::Pass),
        8 => (1_u64..5).prop_map(Event::Hit),
        1 => (1_u64..9).prop_map(Event::Take),
        3 => Just(Event::Write),
        2 => Just(Event::Crash),
    ]
}

/// The answers of the limit without a crash, for everything that was answered.
struct Truth {
    machine: AnyMachine,
    state: Option<AnyState>,
    /// Whether a fresh key was charged, or the end of an elastic window moved, since the last
    /// commit.
    forgettable: bool,
}

impl Truth {
    fn room(&self, at: Timestamp) -> u64 {
        self.machine.apply(&mut self.state.clone(), at, Op::Peek(1)).remaining()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_more_is_admitted_after_any_crash(
        algorithm in proptest::sample::select(&Algorithm::PERIODIC[..]),
        quota in 1_u64..60,
        period in prop_oneof![Just(200_000_u64), Just(5_000_000), Just(3_600_000_000)],
        level in proptest::sample::select(&[Level::Reserve, Level::Sync][..]),
        events in proptest::collection::vec(event(), 1..40),
    ) {
        let limit = Limit::new(quota, Duration::from_micros(period)).algorithm(algorithm);
        let limit = limit.build().unwrap();
        let (disk, clock) = (Disk::default(), ManualClock::new(START));
        let store = open(&disk, &clock, level);
        let limiter = store.limiter(limit.clone()).unwrap();
        let mut now = START;
        let mut truth = Truth { machine: AnyMachine::new(&limit), state: None, forgettable: false };
        for event in events {
            clock.set(now);
            let at = limiter.at(now);
            match event {
                Event::Pass(micros) => now = now + Duration::from_micros(micros),
                Event::Hit(_) | Event::Take(_) => {
                    let fresh_at = truth.machine.fresh_at(truth.state.as_ref());
                    let is_fresh = fresh_at.is_none_or(|at| at <= now);
                    let decision = match event {
                        Event::Hit(cost) => block_on(at.hit_n("key", cost)).unwrap(),
                        Event::Take(cost) => block_on(at.take("key", cost)).unwrap(),
                        _ => continue,
                    };
                    if level == Level::Reserve {
                        let pushed = algorithm == Algorithm::ElasticWindow && decision.charged() == 0;
                        truth.forgettable |= pushed || is_fresh && decision.charged() > 0;
                    }
                    let op = match event {
                        Event::Take(cost) => Op::Take(cost),
                        Event::Hit(cost) => Op::Hit(cost),
                        _ => continue,
                    };
                    let said = truth.machine.apply(&mut truth.state, now, op);
                    prop_assert_eq!(said.charged(), decision.charged());
                }
                Event::Write => {
                    block_on(store.flush()).unwrap();
                    truth.forgettable = false;
                }
                Event::Crash => {
                    // The old store still exists, and closes onto a disk that is not used any more.
                    let after = open(&disk.as_it_is(), &clock, level);
                    let limiter = after.limiter(limit.clone()).unwrap();
                    for span in [0, 1, period / 3, period, period * 2] {
                        let at = now + Duration::from_micros(span);
                        let room = block_on(limiter.at(at).peek("key")).unwrap().remaining();
                        let most = truth.room(at);
                        prop_assert!(
                            room <= most || truth.forgettable,
                            "{room} of {most} after {span}"
                        );
                    }
                    return Ok(());
                }
            }
        }
    }
}

#[test]
fn a_key_that_is_on_disk_loses_no_more_than_its_reserve() {
    let (disk, clock) = (Disk::default(), ManualClock::new(START));
    let limiter = |store: &Durable| store.limiter("80/day fixed-window").unwrap();
    let store = open(&disk, &clock, Level::Reserve);
    for _ in 0..20 {
        assert!(block_on(limiter(&store).hit("key")).unwrap().allowed());
    }
    block_on(store.flush()).unwrap();
    for _ in 0..4 {
        assert!(block_on(limiter(&store).hit("key")).unwrap().allowed());
    }
    let after = open(&disk.as_it_is(), &clock, Level::Reserve);
    let used = block_on(limiter(&after).usage("key")).unwrap();
    // An eighth of eighty is ten.
    assert!((24..=34).contains(&used), "{used}");
    drop(store);
}

#[test]
fn a_limit_of_one_keeps_its_unit() {
    let (disk, clock) = (Disk::default(), ManualClock::new(START));
    let store = open(&disk, &clock, Level::Reserve);
    let limiter = store.limiter("1/hour").unwrap();
    assert!(block_on(limiter.hit("key")).unwrap().allowed());
    block_on(store.flush()).unwrap();
    let store = open(&disk.as_it_is(), &clock, Level::Reserve);
    let limiter = store.limiter("1/hour").unwrap();
    assert!(!block_on(limiter.hit("key")).unwrap().allowed());
    clock.advance(Duration::from_secs(3600));
    assert!(block_on(limiter.hit("key")).unwrap().allowed());
}

#[test]
fn the_wall_clock_may_have_gone_back() {
    let (disk, clock) = (Disk::default(), ManualClock::new(START));
    for algorithm in Algorithm::PERIODIC {
        let limit = Limit::per_minute(5).algorithm(algorithm).build().unwrap();
        let store = open(&disk, &clock, Level::Reserve);
        let limiter = store.limiter(limit.clone()).unwrap();
        assert_eq!(block_on(limiter.take("key", 9)).unwrap().charged(), 5, "{algorithm}");
        store.close().unwrap();
        let hour = Duration::from_secs(3600);
        clock.set(Timestamp::from_micros(START.as_micros() - 3_600_000_000));
        let store = open(&disk, &clock, Level::Reserve);
        let limiter = store.limiter(limit).unwrap();
        assert!(!block_on(limiter.hit("key")).unwrap().allowed(), "{algorithm}");
        // The wait is at most the jump and the wait of the limit: two windows of a sliding window.
        clock.advance(hour + Duration::from_secs(120));
        assert!(block_on(limiter.hit("key")).unwrap().allowed(), "{algorithm}");
        store.close().unwrap();
        clock.set(START);
    }
}
