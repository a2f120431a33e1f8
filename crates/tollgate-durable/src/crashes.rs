//! The states that a crash leaves, for every algorithm: never more room than without the crash, and
//! less room only by the reserve.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::{AnyMachine, AnyState, Op};
use tollgate::{Algorithm, Limit, Timestamp};

use crate::mark::{Mark, Reserve};
use crate::record::{Record, SPEAKS_FOR};

const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Hit(u64),
    Charge(u64),
    GiveBack(u64),
    /// Makes a record, which is then queued for the disk.
    Make,
    /// The record arrives on disk.
    Arrive,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => prop_oneof![0_u64..2_000, 0_u64..2_000_000, 0_u64..700_000_000].prop_map(Event::Pass),
        8 => (0_u64..6).prop_map(Event::Hit),
        1 => (0_u64..12).prop_map(Event::Charge),
        1 => (1_u64..4).prop_map(Event::GiveBack),
        2 => Just(Event::Make),
        2 => Just(Event::Arrive),
    ]
}

fn limit() -> impl Strategy<Value = Limit> {
    let algorithm = proptest::sample::select(&Algorithm::PERIODIC[..]);
    let period = prop_oneof![1_000_u64..100_000, 100_000_u64..5_000_000, Just(3_600_000_000_u64)];
    (algorithm, 1_u64..100, period, 1_u64..3, any::<bool>()).prop_map(
        |(algorithm, quota, period, bursts, charge_denied)| {
            let limit = Limit::new(quota, Duration::from_micros(period)).algorithm(algorithm);
            let windows = [Algorithm::FixedWindow, Algorithm::FixedWindowPerKey];
            let limit = match algorithm {
                Algorithm::Gcra | Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                    limit.burst(quota * bursts)
                }
                _ if windows.contains(&algorithm) && charge_denied => limit.charge_denied(),
                _ => limit,
            };
            limit.build().unwrap()
        },
    )
}

/// A key, its record on disk, and the record that is queued for the disk.
struct Key {
    machine: AnyMachine,
    pushes: bool,
    reserve: Reserve,
    now: Timestamp,
    state: Option<AnyState>,
    mark: Mark,
    disk: Option<Record>,
    on_its_way: Option<Record>,
    /// Charged since the last record was made.
    since: u64,
    /// When units were last charged.
    last: Timestamp,
    /// The file does not cover the charged units: the key was new, or a denied attempt was counted.
    exempt: bool,
    /// Units were charged after the queued record was made, without waiting for the disk: that
    /// record does not cover them.
    unspoken: bool,
    /// Whether units were given back since the record on disk was made, and since the queued record
    /// was made.
    gave_back: [bool; 2],
}

impl Key {
    fn new(limit: &Limit) -> Key {
        let now = Timestamp::from_micros(1_790_000_000_123_457);
        Key {
            machine: AnyMachine::new(limit),
            pushes: limit.algorithm() == Algorithm::ElasticWindow,
            reserve: Reserve::of(limit, INTERVAL),
            now,
            state: None,
            mark: Mark::new(now),
            disk: None,
            on_its_way: None,
            since: 0,
            last: now,
            exempt: true,
            unspoken: false,
            gave_back: [false; 2],
        }
    }

    fn make(&mut self) {
        let Some(state) = &self.state else { return };
        if self.on_its_way.is_none() {
            self.on_its_way = Some(self.mark.record(state, self.reserve));
            (self.since, self.unspoken) = (0, false);
            self.gave_back[1] = false;
        }
    }

    fn arrive(&mut self) {
        if let Some(record) = self.on_its_way.take() {
            self.mark.written(record.at, record.reserve);
            let in_time = self.last <= record.at + SPEAKS_FOR;
            self.exempt = self.since > record.reserve || !in_time || self.unspoken;
            self.gave_back[0] = self.gave_back[1];
            self.disk = Some(record);
        }
    }

    /// Charges as the store does: immediately where the record covers it or the key is fresh, else
    /// after it is on disk.
    fn charge(&mut self, op: Op, units: u64) {
        let is_fresh = self.machine.fresh_at(self.state.as_ref()).is_none_or(|at| at <= self.now);
        let mut waits = false;
        if !self.mark.covers(units, self.now) {
            if is_fresh {
                self.mark.begin_anew(self.now);
                (self.since, self.exempt) = (0, true);
            } else {
                waits = true;
            }
        }
        let decision = self.machine.apply(&mut self.state, self.now, op);
        self.mark.charged(decision.charged(), self.now);
        self.since += decision.charged();
        if decision.charged() > 0 {
            self.last = self.now;
        }
        if waits && decision.charged() > 0 && decision.allowed() {
            self.arrive();
            self.make();
            self.arrive();
        } else if waits && decision.charged() > 0 || self.pushes {
            // Counted or pushed without waiting for the disk.
            (self.exempt, self.unspoken) = (true, true);
        }
    }

    fn after(&mut self, event: &Event) {
        match *event {
            Event::Pass(micros) => self.now = self.now + Duration::from_micros(micros),
            Event::Hit(cost) => self.charge(Op::Hit(cost), cost),
            Event::Charge(units) => self.charge(Op::Charge(units), units),
            Event::GiveBack(units) => {
                let _ = self.machine.apply(&mut self.state, self.now, Op::RefundUnits(units));
                self.gave_back = [true; 2];
            }
            Event::Make => self.make(),
            Event::Arrive => self.arrive(),
        }
    }

    fn room(&self, state: Option<&AnyState>, at: Timestamp) -> u64 {
        self.machine.apply(&mut state.cloned(), at, Op::Peek(1)).remaining()
    }

    /// A crash now, and a restart after `down`, with either record.
    fn crash(&self, down: Duration, later: &[u64]) -> Result<bool, TestCaseError> {
        let start = self.now + down;
        let mut spoken_for = false;
        for (record, gave_back) in [&self.disk, &self.on_its_way].into_iter().zip(self.gave_back) {
            let Some(record) = record else { continue };
            let restored = record.clone().restored(&self.machine, start);
            for span in later {
                let at = start + Duration::from_micros(*span);
                let without = self.room(self.state.as_ref(), at);
                let with = self.room(restored.as_ref(), at);
                if !self.exempt {
                    spoken_for = true;
                    prop_assert!(with <= without, "{with} of {without} after {span}: {record:?}");
                }
                if !gave_back {
                    let most = with.saturating_add(record.reserve);
                    prop_assert!(without <= most, "{with} of {without} after {span}: {record:?}");
                }
            }
            prop_assert!(record.reserve <= self.reserve.most);
        }
        Ok(spoken_for)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_crash_leaves_no_more_room_and_less_only_by_the_reserve(
        limit in limit(),
        events in proptest::collection::vec(event(), 1..60),
        down in prop_oneof![Just(0_u64), 0_u64..3_000_000, 0_u64..1_000_000_000],
        spans in proptest::collection::vec(0_u64..10_000_000, 3),
    ) {
        let mut key = Key::new(&limit);
        let down = Duration::from_micros(down);
        for event in &events {
            key.after(event);
            // Exactly at the start, and at irregular times after it.
            key.crash(down, &[0, 1, spans[0], spans[1], spans[2] * 1_000])?;
        }
    }
}

/// The property above would also hold for a store whose records never cover a key.
#[test]
fn most_keys_are_covered_by_records() {
    let limit: Limit = "100/hour".parse().unwrap();
    let mut key = Key::new(&limit);
    let mut spoken_for = 0;
    for round in 0..50 {
        key.after(&Event::Hit(1));
        key.after(&Event::Pass(100_000));
        if round == 4 {
            key.after(&Event::Make);
            key.after(&Event::Arrive);
        }
        spoken_for += u32::from(key.crash(Duration::ZERO, &[0]).unwrap());
    }
    assert_eq!(spoken_for, 46, "all from the first record on");
}

/// A hot key needs few records, a cold key loses next to nothing, and a limit of one loses nothing.
#[test]
fn the_reserve_follows_the_use() {
    let writes = |text: &str, hits: u32, every: u64| {
        let mut key = Key::new(&text.parse().unwrap());
        key.after(&Event::Hit(1));
        let (mut records, mut last) = (0, None);
        for _ in 0..hits {
            key.after(&Event::Pass(every));
            key.after(&Event::Hit(1));
            if key.mark.runs_low() || key.mark.is_new() {
                key.after(&Event::Make);
                key.after(&Event::Arrive);
            }
            let record = key.disk.clone();
            records += u32::from(record != last);
            last = record;
        }
        (records, last.map_or(0, |record| record.reserve))
    };
    // A thousand per second for ten seconds: about twenty records instead of ten thousand.
    let (records, reserve) = writes("1000/second burst=2000", 10_000, 1_000);
    assert!((10..60).contains(&records) && reserve > 500, "{records} records, {reserve} reserved");
    // One hit in ten seconds reserves one unit at a time.
    let (_, reserve) = writes("1000/hour", 50, 10_000_000);
    assert!(reserve <= 2, "{reserve} reserved");
    assert_eq!(writes("1/hour", 5, 10).1, 0);
    assert_eq!(writes("7/hour", 5, 10).1, 0);
}
