//! A limiter remembers only denials that the store would give. A guard that remembers none must
//! obey the same rules.

use std::time::Duration;

use tollgate::algorithm::{AnyMachine, Op};
use tollgate::{Algorithm, Outcome, Receipt, Source, Timestamp};

use crate::ground::{Ground, HOUR, Limited, START, TICK, before, limit};
use crate::model::same_but_source;
use crate::subject::Subject;

/// All algorithms whose denials hold until their end.
const REMEMBERED: [&str; 7] = [
    "gcra",
    "fixed-window",
    "fixed-window-per-key",
    "moving-window",
    "sliding-window",
    "token-bucket",
    "leaky-bucket",
];

/// Takes three units one after the other, and is denied `cost` a moment later.
fn denied<S: Subject>(limited: &Limited<'_, S>, key: &str, cost: u64) -> (Timestamp, Outcome) {
    for n in 0..3 {
        assert!(limited.hit(START + n * (HOUR / 10), key).allowed(), "{}", limited.limit());
    }
    let now = START + 3 * (HOUR / 10);
    (now, limited.hit_n(now, key, cost))
}

/// Compares what can be known of a denial without its state: the verdict and the times.
fn same_times(got: &Outcome, wanted: &Outcome) -> Result<(), String> {
    let times = |d: &Outcome| (d.allowed(), d.limit(), d.retry_after(), d.expires_at());
    if times(got) == times(wanted) && got.used() >= wanted.used() {
        return Ok(());
    }
    Err(format!("got    {got:?}\nwanted {wanted:?}"))
}

/// The same cost and larger ones, asked repeatedly: every field is that of the store, until the
/// microsecond at which the cost would pass.
pub fn a_remembered_denial_answers_as_the_store_would<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for algorithm in REMEMBERED {
        let limit = limit(&format!("3/hour {algorithm}"));
        let Some(limited) = ground.limited(&limit) else { continue };
        for cost in [1, 2, 3] {
            let key = format!("cost {cost}");
            let machine = AnyMachine::new(&limit);
            let mut state = None;
            for n in 0..3 {
                let _ = machine.apply(&mut state, START + n * (HOUR / 10), Op::Hit(1));
            }
            let (now, first) = denied(&limited, &key, cost);
            let Some(wait) = first.retry_after().filter(|_| !first.allowed()) else { continue };
            let free = now + wait;
            let mut times: Vec<_> = (0..20).map(|n| now + n * (HOUR / 20)).collect();
            times.retain(|time| *time < free);
            times.push(before(free, TICK));
            for time in times {
                for cost in [cost, cost + 1, 4] {
                    let wanted = machine.apply(&mut state.clone(), time, Op::Hit(cost));
                    let got = limited.hit_n(time, &key, cost);
                    let source = matches!(got.source(), Source::Store | Source::DenialCache);
                    assert!(source, "{limit}: from {:?}", got.source());
                    // The log of a moving window stays in the store, so the limiter does not know
                    // which entries have left it.
                    let log = limit.algorithm() == Algorithm::MovingWindow;
                    let same = if log && got.source() == Source::DenialCache {
                        same_times(&got, &wanted)
                    } else {
                        same_but_source(&got, &wanted)
                    };
                    if let Err(difference) = same {
                        panic!(
                            "{limit}: cost {cost} at {time} from {:?}\n{difference}",
                            got.source()
                        );
                    }
                }
            }
            assert!(limited.hit_n(free, &key, cost).allowed(), "{limit}: denied beyond its time");
        }
    }
}

/// The store is asked about a smaller cost than the denied one.
pub fn a_smaller_cost_is_not_denied_from_memory<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for limited in ground.of_all(3, HOUR) {
        let limit = limited.limit();
        assert!(limited.hit(START, "key").allowed(), "{limit}");
        assert!(!limited.hit_n(START, "key", 3).allowed(), "{limit}");
        assert!(limited.hit_n(START, "key", 2).allowed(), "{limit}");
        assert!(!limited.hit(START, "key").allowed(), "{limit}");
    }
}

/// A remembered denial takes account of what this process has charged since: by hits of a smaller
/// cost, takes, charges, and groups.
pub fn a_remembered_denial_includes_later_charges<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for algorithm in REMEMBERED {
        let limit = limit(&format!("10/hour {algorithm}"));
        let Some(limited) = ground.limited(&limit) else { continue };
        let other = ground.limited(&limit).expect("held a moment ago");
        type Charge<'a> = &'a dyn Fn(&'static str);
        let ways: [(&'static str, Charge<'_>); 4] = [
            ("hit", &|key| assert!(limited.hit_n(START, key, 2).allowed(), "{limit}")),
            ("hit by another limiter", &|key| {
                assert!(other.hit_n(START, key, 2).allowed(), "{limit}");
            }),
            ("take", &|key| {
                let taken = limited.apply(START, key, Op::Take(4));
                assert_eq!(taken.charged(), 2, "{limit}");
            }),
            ("charge", &|key| {
                let _ = limited.apply(START, key, Op::Charge(2));
            }),
        ];
        for (way, charge) in ways {
            assert!(limited.hit_n(START, way, 8).allowed(), "{limit}");
            for _ in 0..2 {
                assert_eq!(limited.hit_n(START, way, 5).used(), 8, "{limit}");
            }
            charge(way);
            let mut state = None;
            let machine = AnyMachine::new(&limit);
            let _ = machine.apply(&mut state, START, Op::Hit(8));
            let _ = machine.apply(&mut state, START, Op::Hit(2));
            let wanted = machine.apply(&mut state, START, Op::Hit(5));
            for _ in 0..2 {
                let got = limited.hit_n(START, way, 5);
                if let Err(difference) = same_but_source(&got, &wanted) {
                    panic!("{limit}: after {way}\n{difference}");
                }
            }
        }
    }
}

/// A refund, with or without a receipt, a set, a reset and a clear through this handle take effect
/// immediately.
pub fn giving_back_ends_a_remembered_denial<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for algorithm in REMEMBERED {
        let limit = limit(&format!("2/hour {algorithm}"));
        let Some(limited) = ground.limited(&limit) else { continue };
        let other = ground.limited(&limit).expect("held a moment ago");
        let policy = format!("2/hour {algorithm}; 50/second").parse().expect("a policy");
        let policy = ground.policy(&policy);
        let at = policy.as_ref().map(|policy| policy.at(START));
        type Give<'a> = &'a dyn Fn(&'static str, &Receipt) -> Option<Outcome>;
        let ways: [(&'static str, Give<'_>); 7] = [
            ("refund", &|key, receipt| Some(limited.refund(START, key, receipt))),
            ("refund_n", &|key, _| Some(limited.apply(START, key, Op::RefundUnits(1)))),
            ("set", &|key, _| Some(limited.apply(START, key, Op::Set(0)))),
            ("set by another limiter", &|key, _| Some(other.apply(START, key, Op::Set(1)))),
            ("set by a policy", &|key, _| match &at {
                Some(at) => limited.must(at.set(key, 1)).outcomes().first().copied(),
                None => Some(limited.apply(START, key, Op::Set(1))),
            }),
            ("reset", &|key, _| {
                assert!(limited.reset(START, key), "{limit}");
                None
            }),
            ("clear", &|_, _| {
                limited.must(limited.inner.clear());
                None
            }),
        ];
        for (way, give_back) in ways {
            let _ = limited.hit(START, way);
            let second = limited.hit(START, way);
            for _ in 0..3 {
                assert!(!limited.hit(START, way).allowed(), "{limit}");
            }
            let _ = give_back(way, &second.receipt());
            assert!(limited.hit(START, way).allowed(), "{limit}: still denied after {way}");
        }
    }
}

/// Every attempt on an elastic window and on a limit that charges denied hits reaches the store,
/// because it changes the state.
pub fn denials_that_change_the_state_are_never_remembered<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let texts = [
        "2/hour elastic-window",
        "2/hour elastic-window charge-denied",
        "2/hour fixed-window charge-denied",
        "2/hour fixed-window-per-key charge-denied",
    ];
    for limited in ground.of_texts(texts) {
        let limit = limited.limit();
        let (machine, mut state) = (AnyMachine::new(limit), None);
        for n in 0..8 {
            let now = START + n * (HOUR / 100);
            let wanted = machine.apply(&mut state, now, Op::Hit(1));
            let got = limited.hit(now, "key");
            assert_eq!(got.source(), Source::Store, "{limit}: attempt {n}");
            if let Err(difference) = same_but_source(&got, &wanted) {
                panic!("{limit}: attempt {n}\n{difference}");
            }
        }
    }
    // The same in a policy with such a limit.
    for text in ["1/hour; 50/day elastic-window", "1/hour; 50/day fixed-window charge-denied"] {
        let Some(policy) = ground.policy(&text.parse().expect("a policy")) else { continue };
        for n in 0..5_u32 {
            let now = START + n * Duration::from_secs(1);
            let hit = ground.run(policy.at(now).hit(text));
            let hit = hit.unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((hit.allowed(), hit.headline().source()), (n == 0, Source::Store), "{text}");
        }
    }
}
