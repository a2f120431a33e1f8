//! Holds and concurrency limits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::algorithm::{AnyMachine, AnyState, Op};
use tollgate::hold::{
    HoldCall, HoldConflict, HoldId, HoldItem, HoldRecord, HoldReply, HoldStatus, HoldTerms, decide,
};
use tollgate::shared::{Ask, SharedStore};
use tollgate::{Error, ErrorKind, OwnedKey, Timestamp};

use crate::ground::{DEADLINE, Ground, START, TICK, before, limit, on_threads};
use crate::model::same;
use crate::random::{Random, cases, seed};
use crate::subject::Subject;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn item(policy: &str, key: &str, units: u64) -> HoldItem {
    let policy = policy.parse().unwrap_or_else(|error| panic!("{policy}: {error}"));
    HoldItem::new(policy, key, units)
}

fn reserve(items: &[HoldItem]) -> HoldCall {
    HoldCall::Reserve { items: items.to_vec(), ttl: None }
}

fn id(name: &str) -> HoldId {
    HoldId::new("key", name.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

impl<S: Subject> Ground<'_, S> {
    fn try_hold(&self, now: Timestamp, id: &HoldId, call: &HoldCall) -> Result<HoldReply, Error> {
        self.run(self.store.hold(&self.namespace, id, call, Some(now), DEADLINE))
    }

    fn hold(&self, now: Timestamp, id: &HoldId, call: &HoldCall) -> HoldReply {
        self.try_hold(now, id, call).unwrap_or_else(|error| panic!("{call:?}: {error}"))
    }

    fn reserved(&self, now: Timestamp, name: &str, items: &[HoldItem]) -> HoldStatus {
        self.hold(now, &id(name), &reserve(items)).status
    }

    fn settle(&self, now: Timestamp, name: &str, units: u64) -> HoldReply {
        self.hold(now, &id(name), &HoldCall::Settle(vec![Some(units)]))
    }

    /// The units in use of a limit, on the key of these rules.
    fn used(&self, now: Timestamp, text: &str) -> u64 {
        let prepared = self.store.prepare(&self.namespace, &limit(text));
        let prepared = prepared.unwrap_or_else(|error| panic!("{text}: {error}"));
        let key = OwnedKey::new("key");
        let ask = Ask { prepared: &prepared, key: key.as_key_ref(), op: Op::Peek(0) };
        let outcomes = self.run(self.store.ask_each(&[ask], Some(now), DEADLINE));
        outcomes.unwrap_or_else(|error| panic!("{text}: {error}"))[0].used()
    }
}

/// A settlement gives back by receipt: units of a window that is over reach no later window.
pub fn a_refund_reaches_only_the_window_that_was_charged<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    const LIMIT: &str = "1000/minute fixed-window";
    let edge = Timestamp::from_micros(START.as_micros().div_ceil(60_000_000) * 60_000_000);
    let (last, first) = (before(edge, SECOND / 10), edge + SECOND / 10);
    assert_eq!(ground.reserved(last, "one", &[item(LIMIT, "key", 900)]), HoldStatus::Open);
    assert_eq!(ground.reserved(first, "two", &[item(LIMIT, "key", 900)]), HoldStatus::Open);
    assert_eq!(ground.settle(first + TICK, "one", 100).status, HoldStatus::Settled);
    assert_eq!(
        ground.used(first + TICK, LIMIT),
        900,
        "the refund belongs to a window that is over"
    );
    assert_eq!(
        ground.reserved(first + TICK, "three", &[item(LIMIT, "key", 850)]),
        HoldStatus::Denied
    );
    assert_eq!(ground.settle(first + TICK, "two", 300).status, HoldStatus::Settled);
    assert_eq!(ground.used(first + TICK, LIMIT), 300, "the refund belongs to the current window");
}

/// A hold is settled once: the same figures are answered again, and others are a conflict.
pub fn a_settlement_is_applied_once<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    const LIMIT: &str = "1000/hour fixed-window-per-key";
    for name in ["one", "two"] {
        assert_eq!(ground.reserved(START, name, &[item(LIMIT, "key", 400)]), HoldStatus::Open);
    }
    for repeated in [false, true, true] {
        let reply = ground.settle(START + SECOND, "one", 100);
        assert_eq!((reply.status, reply.repeated), (HoldStatus::Settled, repeated));
        assert_eq!(reply.items[0].units, 100);
        assert_eq!(ground.used(START + SECOND, LIMIT), 500);
    }
    let other = ground.settle(START + SECOND, "one", 101).status;
    assert_eq!(other, HoldStatus::Conflict(HoldConflict::OtherFigures));
    assert_eq!(ground.used(START + SECOND, LIMIT), 500);
    // More than reserved is charged without asking.
    let reply = ground.settle(START + SECOND, "two", 1_000);
    assert!(reply.items[0].overdrawn, "{reply:?}");
    assert_eq!(ground.used(START + SECOND, LIMIT), 1_100);
}

/// All items of a hold are charged or none is, and a denial leaves no record.
pub fn a_hold_takes_all_items_or_none<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let (rate, slots) = ("10/hour fixed-window-per-key", "2 concurrent");
    let items = |units| [item(rate, "key", units), item(slots, "key", 1)];
    assert_eq!(ground.reserved(START, "one", &items(4)), HoldStatus::Open);
    assert_eq!(ground.reserved(START, "two", &items(7)), HoldStatus::Denied);
    assert_eq!((ground.used(START, rate), ground.used(START, slots)), (4, 1));
    assert_eq!(ground.hold(START, &id("two"), &HoldCall::LookUp).status, HoldStatus::Unknown);
    assert_eq!(ground.reserved(START, "two", &items(6)), HoldStatus::Open);
    assert_eq!(ground.reserved(START, "three", &items(0)), HoldStatus::Denied);
    assert_eq!((ground.used(START, rate), ground.used(START, slots)), (10, 2));
    let grown = ground.hold(START, &id("one"), &HoldCall::Grow(vec![Some(5), Some(1)]));
    assert_eq!((grown.status, grown.items[0].units), (HoldStatus::Denied, 4));
    assert_eq!((ground.used(START, rate), ground.used(START, slots)), (10, 2));
    let never = ground.hold(START, &id("big"), &reserve(&items(11)));
    assert_eq!(never.headline().and_then(tollgate::Outcome::retry_after), None);
    let clamped = ground.hold(
        START + 2 * Duration::from_secs(3600),
        &id("big"),
        &reserve(&[item(rate, "key", 11).clamp()]),
    );
    assert_eq!((clamped.status, clamped.items[0].units), (HoldStatus::Open, 10));
}

/// A release frees only the slot of its own hold, however often and however late it comes.
pub fn a_release_frees_no_other_slot<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    const LIMIT: &str = "2 concurrent hold=60s";
    let slot = [item(LIMIT, "key", 1)];
    for name in ["one", "two"] {
        assert_eq!(ground.reserved(START, name, &slot), HoldStatus::Open);
    }
    assert_eq!(ground.reserved(START, "three", &slot), HoldStatus::Denied);
    ground.settle(START + SECOND, "one", 1);
    assert_eq!(ground.reserved(START + SECOND, "three", &slot), HoldStatus::Open);
    for step in 2..5 {
        assert!(ground.settle(START + step * SECOND, "one", 1).repeated);
        assert_eq!(ground.used(START + step * SECOND, LIMIT), 2, "freed another holder's slot");
    }
    // The slot of `two` is free at its deadline, and is given to `four`.
    assert_eq!(ground.reserved(before(START + MINUTE, TICK), "four", &slot), HoldStatus::Denied);
    assert_eq!(ground.reserved(START + MINUTE, "four", &slot), HoldStatus::Open);
    let late = ground.settle(START + MINUTE, "two", 1);
    assert_eq!((late.status, ground.used(START + MINUTE, LIMIT)), (HoldStatus::Settled, 2));
}

/// From the deadline on the slots are free and the other charges stand, by the time of the store. A
/// late settlement still gives back.
pub fn an_expired_hold_frees_its_slots_and_keeps_its_charges<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let (rate, slots) = ("10/hour fixed-window-per-key", "1 concurrent hold=5s");
    let items = [item(rate, "key", 4), item(slots, "key", 1)];
    let opened = ground.hold(START, &id("one"), &reserve(&items));
    assert_eq!(opened.deadline, Some(START + 5 * SECOND));
    let extend = |now| ground.hold(now, &id("one"), &HoldCall::Extend(Some(10 * SECOND)));
    assert_eq!(extend(START + 4 * SECOND).deadline, Some(START + 14 * SECOND));
    let last = before(START + 14 * SECOND, TICK);
    assert_eq!((ground.used(last, rate), ground.used(last, slots)), (4, 1));
    let end = START + 14 * SECOND;
    assert_eq!((ground.used(end, rate), ground.used(end, slots)), (4, 0));
    assert_eq!(extend(end).status, HoldStatus::Expired);
    let grow = HoldCall::Grow(vec![Some(9)]);
    assert_eq!(ground.hold(end, &id("one"), &grow).status, HoldStatus::Expired);
    assert_eq!(ground.reserved(end, "one", &items), HoldStatus::Expired);
    assert_eq!(ground.reserved(end, "two", &[item(slots, "key", 1)]), HoldStatus::Open);
    assert_eq!(ground.settle(end + SECOND, "one", 1).status, HoldStatus::Settled);
    assert_eq!((ground.used(end + SECOND, rate), ground.used(end + SECOND, slots)), (1, 1));
}

/// A caller that lost the reply reserves again with the same id: nothing is charged twice and no
/// slot leaks. Other items under the same id are a conflict.
pub fn a_lost_reply_leaks_nothing<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let (rate, slots) = ("10/hour fixed-window-per-key", "3 concurrent hold=60s");
    let items = [item(rate, "key", 2), item(slots, "key", 1)];
    let first = ground.hold(START, &id("one"), &reserve(&items));
    for step in 1..4 {
        let again = ground.hold(START + step * SECOND, &id("one"), &reserve(&items));
        assert_eq!((again.status, again.repeated), (HoldStatus::Open, true));
        assert_eq!((again.deadline, &again.items), (first.deadline, &first.items));
    }
    let now = START + 4 * SECOND;
    assert_eq!((ground.used(now, rate), ground.used(now, slots)), (2, 1));
    let other = ground.reserved(now, "one", &[item(rate, "key", 3), item(slots, "key", 1)]);
    assert_eq!(other, HoldStatus::Conflict(HoldConflict::OtherItems));
    ground.hold(now, &id("one"), &HoldCall::Settle(vec![]));
    assert_eq!((ground.used(now, rate), ground.used(now, slots)), (2, 0), "the estimate stands");
    assert_eq!(ground.reserved(now, "one", &items), HoldStatus::Settled);
    let elsewhere = ground.within("other");
    assert_eq!(elsewhere.hold(now, &id("one"), &HoldCall::LookUp).status, HoldStatus::Unknown);
}

/// Invalid values are errors of the request, and change nothing.
pub fn invalid_holds_are_errors<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    const LIMIT: &str = "10/hour fixed-window-per-key";
    let one = || vec![item(LIMIT, "key", 1)];
    let ttl = |ttl| HoldCall::Reserve { items: one(), ttl: Some(ttl) };
    let items = |items| HoldCall::Reserve { items, ttl: None };
    let many = (0..17).map(|n| item(LIMIT, &n.to_string(), 1)).collect();
    for call in [
        items(vec![]),
        items(many),
        items([one(), one()].concat()),
        items(vec![item(LIMIT, "key", 1_000_000_000_001)]),
        items(vec![item("3 concurrent", "key", 0)]),
        ttl(Duration::ZERO),
        ttl(before(Timestamp::from_micros(1_000_000), TICK).since(Timestamp::EPOCH)),
        ttl(Duration::from_secs(24 * 3600) + TICK),
        HoldCall::Extend(Some(Duration::ZERO)),
        HoldCall::Grow(vec![Some(1_000_000_000_001)]),
        HoldCall::Settle(vec![None; 17]),
    ] {
        let error = ground.try_hold(START, &id("one"), &call).expect_err("an invalid call");
        assert_eq!(error.kind(), ErrorKind::Request, "{error}");
    }
    assert_eq!(ground.used(START, LIMIT), 0);
    assert_eq!(ground.reserved(START, "one", &one()), HoldStatus::Open);
    let figures = HoldCall::Settle(vec![Some(1), Some(1)]);
    let error = ground.try_hold(START, &id("one"), &figures).expect_err("too many figures");
    assert_eq!(error.kind(), ErrorKind::Request, "{error}");
    assert_eq!(ground.settle(START, "one", 1).status, HoldStatus::Settled);
    let grown = ground.hold(START, &id("one"), &HoldCall::Grow(vec![Some(2)]));
    assert_eq!((grown.status, ground.used(START, LIMIT)), (HoldStatus::Settled, 1));
}

/// The definition, with all records and states of a random sequence.
#[derive(Default)]
struct Model {
    records: HashMap<HoldId, Option<HoldRecord>>,
    states: HashMap<(String, OwnedKey), Option<AnyState>>,
}

impl Model {
    fn hold(&mut self, now: Timestamp, id: &HoldId, call: &HoldCall) -> HoldReply {
        let mut record = self.records.get(id).cloned().flatten();
        record.take_if(|record| record.forget_at() <= now);
        let before = record.clone();
        let parts = call.parts(before.as_ref());
        let name = |part: &tollgate::hold::HoldPart<'_>| {
            (part.limit.identity(), OwnedKey::new(&part.key.bytes()))
        };
        let names: Vec<_> = parts.iter().map(name).collect();
        let state = |name| self.states.get(name).cloned().flatten();
        let mut states: Vec<_> = names.iter().map(state).collect();
        let reply = decide(id, call, &mut record, &mut states, now, &HoldTerms::default());
        self.states.extend(names.into_iter().zip(states));
        if let Some(record) = &record {
            let read = HoldRecord::from_bytes(&record.to_bytes());
            assert_eq!(read.as_ref(), Some(record), "a record is read back unchanged");
        }
        self.records.insert(id.clone(), record);
        reply.unwrap_or_else(|error| panic!("{call:?}: {error}"))
    }

    /// The units of live slots, from the records alone.
    fn live(&self, now: Timestamp, key: &str) -> u64 {
        let open = self.records.values().flatten().filter(|record| record.is_open(now));
        let items = open.flat_map(|record| &record.items);
        let slots = items.filter(|item| {
            item.key == OwnedKey::new(key)
                && item.policy.limits().iter().any(|l| l.hold().is_some())
        });
        slots.map(|item| item.units).sum()
    }
}

fn check(got: &HoldReply, wanted: &HoldReply, what: &str) {
    let of = |reply: &HoldReply| {
        (reply.status, reply.repeated, reply.now, reply.deadline, reply.items.clone())
    };
    assert_eq!(of(got), of(wanted), "{what}");
    if let Err(difference) = same(&got.outcomes, &wanted.outcomes) {
        panic!("{what}\n{difference}");
    }
}

/// Random calls on a few holds and keys, interleaved with hits on the same counters, are answered as
/// the definition says, and slots are never given to more holders than the limit allows.
pub fn random_holds_equal_the_definition<S: Subject>(subject: &S) {
    const SLOTS: u64 = 3;
    const RATES: [&str; 6] = [
        "40/minute",
        "30/10 seconds fixed-window",
        "30/minute moving-window",
        "25/minute sliding-window",
        "20/10 seconds fixed-window-per-key charge-denied",
        "40/minute token-bucket burst=20",
    ];
    let seed = seed();
    for case in 0..cases(6) {
        let ground = Ground::new(subject);
        let mut random = Random::new(seed.wrapping_add(case));
        let (mut model, mut now) = (Model::default(), START);
        let mut last: HashMap<HoldId, HoldCall> = HashMap::new();
        let slots = format!("{SLOTS} concurrent hold=8s name=slots");
        for step in 0..120 {
            // Mostly short steps, so that units that were charged still count.
            let step_by = random.one_of(&[0, 0, 1, 50_000, 100_000, 700_000]);
            now = now + Duration::from_micros(step_by);
            if random.percent(8) {
                now = now + random.one_of(&[3 * SECOND, 9 * SECOND]);
            }
            if random.percent(1) {
                now = now + Duration::from_secs(700);
            }
            let key = random.one_of(&["a", "b"]);
            let rate = random.one_of(&RATES);
            let what = format!("seed {seed} case {case} step {step}");
            if random.percent(25) {
                let limit = limit(rate);
                let op = Op::Hit(random.between(0..=9));
                let owned = OwnedKey::new(key);
                let state = model.states.entry((limit.identity(), owned.clone())).or_default();
                let wanted = AnyMachine::new(&limit).apply(state, now, op);
                let prepared = ground.store.prepare(&ground.namespace, &limit);
                let prepared = prepared.unwrap_or_else(|error| panic!("{rate}: {error}"));
                let ask = Ask { prepared: &prepared, key: owned.as_key_ref(), op };
                let got = ground.run(ground.store.ask_each(&[ask], Some(now), DEADLINE));
                let got = got.unwrap_or_else(|error| panic!("{what}: {error}"));
                if let Err(difference) = same(&got, &[wanted]) {
                    panic!("{what}: {op:?} on {rate}\n{difference}");
                }
                continue;
            }
            // The ids move on, because an id that is settled stays so for minutes.
            let id = HoldId::new("a", &[(step / 10) as u8 + random.below(5) as u8]);
            let id = id.unwrap_or_else(|error| panic!("{error}"));
            let figure = |random: &mut Random| {
                random.percent(80).then(|| random.one_of(&[0, 1, 2, 3, 5, 9, 14]))
            };
            let repeats = random.percent(25);
            let call = match random.below(10) {
                _ if repeats && last.contains_key(&id) => last[&id].clone(),
                0..4 => {
                    let slot = item(&slots, key, random.between(1..=2));
                    let other = item(random.one_of(&RATES[..3]), "b", random.between(0..=9));
                    let mut rated = item(rate, key, random.between(0..=12));
                    rated.clamp = random.percent(20);
                    let both = item(&format!("{slots}; {rate}"), key, 1);
                    let items = match random.below(5) {
                        0 => vec![slot],
                        1 => vec![both],
                        2 if key == "a" => vec![rated, other],
                        3 => vec![rated],
                        _ => vec![slot, rated],
                    };
                    let ttl = random.percent(30).then(|| random.between(1..=20) * SECOND.as_secs());
                    HoldCall::Reserve { items, ttl: ttl.map(Duration::from_secs) }
                }
                4..6 => {
                    let items = random.index(3);
                    let known = model.records.get(&id).and_then(Option::as_ref);
                    let items = known.map_or(0, |record| record.items.len().min(items));
                    HoldCall::Grow((0..items).map(|_| figure(&mut random)).collect())
                }
                6..8 => {
                    let known = model.records.get(&id).and_then(Option::as_ref);
                    let items = known.map_or(0, |record| record.items.len());
                    HoldCall::Settle((0..items).map(|_| figure(&mut random)).collect())
                }
                8 => HoldCall::Extend(random.percent(70).then_some(5 * SECOND)),
                _ => HoldCall::LookUp,
            };
            last.insert(id.clone(), call.clone());
            let wanted = model.hold(now, &id, &call);
            let got = ground.hold(now, &id, &call);
            check(&got, &wanted, &format!("{what}: {call:?}"));
            for key in ["a", "b"] {
                assert!(model.live(now, key) <= SLOTS, "{what}: more than {SLOTS} slots are live");
            }
        }
    }
}

/// Real threads that reserve and settle at the same time never hold more slots than the limit
/// allows, and every slot is free at the end.
pub fn concurrent_holders_never_exceed_the_limit<S: Subject>(subject: &S) {
    const LIMIT: &str = "3 concurrent hold=60s";
    let ground = Ground::new(subject);
    let (live, granted) = (AtomicU64::new(0), AtomicU64::new(0));
    on_threads(8, |thread| {
        let ground = ground.again();
        for turn in 0..25 {
            let name = format!("{thread} {turn}");
            let call = reserve(&[item(LIMIT, "key", 1)]);
            let reply =
                ground.run(ground.store.hold(&ground.namespace, &id(&name), &call, None, DEADLINE));
            let reply = reply.unwrap_or_else(|error| panic!("{error}"));
            if !reply.is_open() {
                assert_eq!(reply.status, HoldStatus::Denied);
                continue;
            }
            let others = live.fetch_add(1, Ordering::SeqCst);
            assert!(others < 3, "{others} others have a slot");
            granted.fetch_add(1, Ordering::SeqCst);
            live.fetch_sub(1, Ordering::SeqCst);
            let settle = HoldCall::Settle(vec![]);
            let settled = ground.run(ground.store.hold(
                &ground.namespace,
                &id(&name),
                &settle,
                None,
                DEADLINE,
            ));
            assert!(settled.is_ok_and(|reply| reply.status == HoldStatus::Settled));
        }
    });
    assert!(granted.load(Ordering::SeqCst) >= 3);
    let all: Vec<_> = (0..3).map(|n| ground.reserved_now(&format!("last {n}"), LIMIT)).collect();
    assert_eq!(all, [HoldStatus::Open; 3], "a slot leaked");
}

impl<S: Subject> Ground<'_, S> {
    /// Reserves one unit at the time of the store.
    fn reserved_now(&self, name: &str, limit: &str) -> HoldStatus {
        let call = reserve(&[item(limit, "key", 1)]);
        let reply = self.run(self.store.hold(&self.namespace, &id(name), &call, None, DEADLINE));
        reply.unwrap_or_else(|error| panic!("{error}")).status
    }
}
