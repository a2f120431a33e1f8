//! Tests of the words of `Atomic` and `Direct`: counts that do not fit a word, and times far from
//! the store's clock.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::algorithm::{AnyMachine, Op};
use tollgate::{
    Algorithm, Atomic, Clock, Direct, KeyRef, Limit, ManualClock, Memory, Outcome, Store, Timestamp,
};

use super::START;

type Apply = Box<dyn Fn(Timestamp, Op) -> Outcome>;

fn on_store<S: Store>(store: &S, limit: &Limit) -> Option<Apply> {
    let prepared = store.prepare("", limit).ok()?;
    let store = store.clone();
    Some(Box::new(move |now, op| store.apply(&prepared, KeyRef::plain(b"key"), now, op)))
}

/// Returns a function that applies operations to one key, for each store that supports this limit.
fn stores(limit: &Limit, clock: impl Clock + Clone + 'static) -> Vec<(&'static str, Apply)> {
    let memory = on_store(&Memory::builder().clock(clock.clone()).build(), limit);
    let atomic = on_store(&Atomic::builder().clock(clock.clone()).build(), limit);
    let direct = Direct::with_clock(limit.clone(), clock).ok();
    let direct = direct.map(|direct| Box::new(move |now, op| direct.apply(now, op)) as Apply);
    let all = [("Memory", memory), ("Atomic", atomic), ("Direct", direct)];
    all.into_iter().filter_map(|(name, apply)| Some((name, apply?))).collect()
}

/// Generates numbers of units that are small enough that their sum does not saturate.
fn units() -> impl Strategy<Value = u64> {
    prop_oneof![0..10_u64, 0..10_000_u64, any::<u64>().prop_map(|units| units >> 21)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => units().prop_map(Op::Charge),
        3 => units().prop_map(Op::Hit),
        2 => units().prop_map(Op::Take),
        1 => units().prop_map(Op::Set),
    ]
}

fn limit() -> impl Strategy<Value = Limit> {
    let algorithm = prop::sample::select(&Algorithm::PERIODIC[..]);
    let quota = prop_oneof![1..300_u64, Just(1_000_000)];
    let micros = prop_oneof![Just(1_000_000_u64), Just(86_400_000_000), 1_000..100_000_000_u64];
    (algorithm, quota, micros, any::<bool>(), any::<bool>()).prop_map(
        |(algorithm, quota, micros, named, charge_denied)| {
            let limit = Limit::new(quota, Duration::from_micros(micros)).algorithm(algorithm);
            let limit = if named { limit.name("name") } else { limit };
            let plain = limit.clone().build().expect("the quota and the period are in range");
            if charge_denied { limit.charge_denied().build().unwrap_or(plain) } else { plain }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A store that cannot count all requested units charges fewer units, and reports how many.
    #[test]
    fn the_charge_in_the_outcome_equals_the_charge_in_the_store(
        limit in limit(),
        calls in vec((0..2_000_000_u64, op(), any::<bool>()), 1..30),
    ) {
        let machine = AnyMachine::new(&limit);
        let charges_denied = limit.charge_denied();
        for (name, apply) in stores(&limit, ManualClock::new(START)) {
            let (mut state, mut now) = (None, START);
            for (micros, op, refund) in &calls {
                now = now + Duration::from_micros(*micros);
                let before = apply(now, Op::Peek(1)).used();
                let got = apply(now, *op);
                let after = apply(now, Op::Peek(1));
                prop_assert_eq!(got.used(), after.used(), "{} {}", name, &limit);
                let definition = match *op {
                    // A part of the units was charged.
                    Op::Charge(units) if got.charged() < units => Op::Charge(got.charged()),
                    // The hit was denied, and the denied hit was charged, completely or in part.
                    Op::Hit(_) | Op::Take(_) if !got.allowed() && charges_denied => {
                        Op::Charge(got.charged())
                    }
                    // The units did not fit the word, which counts fewer. Continue with a fresh
                    // key.
                    Op::Set(units) if got.used() < units.min(10_u64.pow(15)) => {
                        let _ = apply(now, Op::Set(0));
                        let _ = machine.apply(&mut state, now, Op::Set(0));
                        continue;
                    }
                    op => op,
                };
                let wanted = machine.apply(&mut state, now, definition);
                prop_assert_eq!(got.charged(), wanted.charged(), "{} {}", name, &limit);
                prop_assert_eq!(got.used(), wanted.used(), "{} {}: {:?}", name, &limit, op);
                prop_assert_eq!(got.expires_at(), wanted.expires_at(), "{} {}", name, &limit);
                if *refund {
                    let left = apply(now, Op::Refund(got.receipt())).used();
                    let refunded = machine.apply(&mut state, now, Op::Refund(wanted.receipt()));
                    prop_assert_eq!(left, refunded.used(), "{} {}: {:?}", name, &limit, op);
                    // Near the largest timestamp the definition itself saturates, so the units need
                    // not add up.
                    if got.used() == before + got.charged() {
                        prop_assert_eq!(left, before, "{} {}: {:?}", name, &limit, op);
                    }
                }
            }
        }
    }

    /// This also holds for times that do not fit a word.
    #[test]
    fn at_most_the_limit_is_admitted_far_from_the_clock_of_the_store(
        limit in limit(),
        clock in prop_oneof![Just(0), Just(START.as_micros()), 0..1_u64 << 62],
        at in prop_oneof![Just(START.as_micros()), 0..1_u64 << 52, 0..1_u64 << 62],
    ) {
        for (name, apply) in stores(&limit, ManualClock::new(Timestamp::from_micros(clock))) {
            let now = Timestamp::from_micros(at);
            let mut admitted = 0;
            for _ in 0..3 {
                let taken = apply(now, Op::Take(limit.burst() / 2 + 1));
                admitted += if taken.allowed() { taken.charged() } else { 0 };
            }
            prop_assert!(admitted <= limit.burst(), "{}: {} of {}", name, admitted, &limit);
            prop_assert!(!apply(now, Op::Hit(1)).allowed(), "{}: {}", name, &limit);
        }
    }
}

#[test]
fn hits_in_2026_on_a_clock_at_the_epoch_are_limited() {
    for algorithm in Algorithm::PERIODIC {
        let limit = Limit::per_second(2).algorithm(algorithm).build().unwrap();
        for (name, apply) in stores(&limit, ManualClock::default()) {
            let admitted = (0..2_000).filter(|_| apply(START, Op::Hit(1)).allowed()).count();
            assert_eq!(admitted, 2, "{name} {algorithm}");
        }
    }
}

#[test]
fn a_charge_that_does_not_fit_a_word_is_reduced() {
    for (name, apply) in stores(
        &Limit::new(200, Duration::from_secs(60))
            .algorithm(Algorithm::FixedWindow)
            .build()
            .unwrap(),
        ManualClock::new(START),
    ) {
        let charged = apply(START, Op::Charge(10_000));
        let most = if name == "Memory" { 10_000 } else { 4_095 };
        assert_eq!((charged.charged(), charged.used()), (most, most), "{name}");
        assert_eq!(apply(START, Op::Refund(charged.receipt())).used(), 0, "{name}");
    }
}
