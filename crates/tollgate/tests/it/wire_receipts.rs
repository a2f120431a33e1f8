//! Tests of receipts as text: what is written is read, and everything else is refused.

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::algorithm::{AnyMachine, MAX_UNITS, Op};
use tollgate::shared::Place;
use tollgate::{
    Algorithm, Decision, ErrorKind, Limit, Limiter, Memory, Outcome, OwnedKey, Receipt, Source,
    Tagged, Timestamp, WireReceipt, base64,
};

use crate::properties::config;

const LATEST: u64 = Timestamp::MAX.as_micros();

const SOURCES: [Source; 8] = [
    Source::Store,
    Source::Overflow,
    Source::DenialCache,
    Source::Fallback,
    Source::FailOpen,
    Source::FailClosed,
    Source::Lease,
    Source::Replica,
];

fn receipts() -> impl Strategy<Value = Receipt> {
    let number = |most: u64| prop_oneof![Just(0), Just(1), Just(most), 0..=most];
    let source = select(&SOURCES[..]);
    (number(MAX_UNITS), number(LATEST), number(LATEST), source).prop_map(
        |(units, at, mark, source)| Receipt { units, at: Timestamp::from_micros(at), mark, source },
    )
}

fn limits() -> impl Strategy<Value = Limit> {
    let name = prop_oneof![Just(None), "[a-z:0-9]{1,20}".prop_map(Some)];
    (1_u64..1000, select(&Algorithm::PERIODIC[..]), name).prop_map(|(quota, algorithm, name)| {
        let limit = Limit::per_minute(quota).algorithm(algorithm);
        let limit = if let Some(name) = name { limit.name(name) } else { limit };
        limit.build().expect("a valid limit")
    })
}

fn keys() -> impl Strategy<Value = OwnedKey> {
    prop_oneof![
        any::<String>().prop_map(|key| OwnedKey::new(&key)),
        any::<u64>().prop_map(|key| OwnedKey::new(&key)),
        (any::<String>(), any::<String>()).prop_map(|key| OwnedKey::new(&key)),
        (any::<String>(), any::<String>()).prop_map(|(tag, key)| OwnedKey::new(&Tagged(tag, key))),
        "[a-z]{300,400}".prop_map(|key| OwnedKey::new(&key)),
    ]
}

fn limit(text: &str) -> Limit {
    text.parse().expect("a valid limit")
}

/// Returns a receipt of three units.
fn three() -> Receipt {
    let at = Timestamp::from_micros(1_767_225_600_000_000);
    Receipt { units: 3, at, mark: 29_453_760, source: Source::Store }
}

fn read(text: &str) -> Result<WireReceipt, String> {
    text.parse().map_err(|error: tollgate::Error| {
        assert_eq!(error.kind(), ErrorKind::Request);
        error.to_string()
    })
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn a_receipt_is_read_as_it_was_written(
        receipt in receipts(), namespace in any::<String>(), limit in limits(), key in keys(),
    ) {
        let place = Place::new(&namespace, &limit);
        let text = WireReceipt::new(receipt, &place, &key).to_string();
        prop_assert_eq!(text.len(), WireReceipt::LENGTH);
        let read = read(&text).map_err(TestCaseError::fail)?;
        prop_assert_eq!(read.check(&place, &key), Ok(receipt));
        prop_assert!(read.is_honoured_here(), "this process has issued it");
        prop_assert_eq!(read.units(), receipt.units);
        prop_assert_eq!(read.to_string(), text);
    }

    #[test]
    fn a_receipt_of_another_namespace_limit_or_key_is_refused(
        receipt in receipts(), namespaces in any::<[String; 2]>(), limits in (limits(), limits()),
        keys in (keys(), keys()),
    ) {
        let [own, other] = &namespaces;
        let wire = WireReceipt::new(receipt, &Place::new(own, &limits.0), &keys.0);
        for (namespace, limit, key) in [
            (other, &limits.0, &keys.0),
            (own, &limits.1, &keys.0),
            (own, &limits.0, &keys.1),
            (other, &limits.1, &keys.1),
        ] {
            let same = namespace == own && limit.identity() == limits.0.identity() && *key == keys.0;
            let place = Place::new(namespace, limit);
            prop_assert_eq!(wire.is_for(&place, key), same);
            prop_assert_eq!(wire.check(&place, key).is_ok(), same);
        }
    }

    /// The checksum does not find forgery, so a machine may get any receipt that can be read.
    #[test]
    fn any_receipt_leaves_at_most_what_a_fresh_key_has(
        receipt in receipts(), now in 0..=LATEST, cost in 1_u64..1000, limit in limits(),
    ) {
        let machine = AnyMachine::new(&limit);
        let now = Timestamp::from_micros(now);
        for takes_mark in [false, true] {
            let mut state = None;
            let charged = machine.apply(&mut state, now, Op::Charge(cost));
            let mark = if takes_mark { charged.receipt().mark } else { receipt.mark };
            let receipt = Receipt { mark, ..receipt };
            let left = machine.apply(&mut state, now, Op::Refund(receipt));
            prop_assert!(left.used() <= charged.used() && left.remaining() <= left.limit());
            prop_assert!(left.used() >= charged.used().saturating_sub(receipt.units));
        }
    }
}

#[test]
fn every_single_changed_character_is_refused() {
    let (place, key) = (Place::new("shop", &limit("1000/minute fixed-window name=api")), "user:42");
    let source = [Source::Store, Source::Lease];
    for receipt in source.map(|source| Receipt { source, ..three() }) {
        let text = WireReceipt::new(receipt, &place, key).to_string();
        let mut characters: Vec<char> = base64::URL.iter().copied().map(char::from).collect();
        characters.extend(['+', '/', '=', ' ', '\0', 'é']);
        for (index, own) in text.char_indices() {
            for other in characters.iter().filter(|other| **other != own) {
                let changed = format!("{}{other}{}", &text[..index], &text[index + 1..]);
                let refused = read(&changed).map(|wire| wire.check(&place, key).is_err());
                assert_ne!(refused, Ok(false), "{changed}");
            }
        }
    }
}

/// Receipts outlive the program that wrote them, so the text of a version never changes.
#[test]
fn the_text_of_version_1_is_constant() {
    let place = Place::new("shop", &limit("1000/minute fixed-window name=api"));
    let wire = WireReceipt::new(three(), &place, "user:42");
    assert_eq!(wire.to_string(), "AQAAAAAAAAAAAwAGR0hGIEAAAAAAAAHBbcAAAAAAAAAAAKNyXMFNGATm");
}

/// Both processes of a rolling upgrade accept the receipts of a renamed quota, as they share its
/// counter.
#[test]
fn a_receipt_of_a_named_limit_stays_valid_when_the_quota_changes() {
    let [old, new, longer] = ["9/minute name=api", "99/minute name=api", "99/hour name=api"];
    let wire = WireReceipt::new(three(), &Place::new("", &limit(old)), 42);
    assert!(wire.is_for(&Place::new("", &limit(new)), "42"), "a number is the key of its digits");
    assert!(!wire.is_for(&Place::new("", &limit(longer)), 42));
}

#[test]
fn errors_state_the_value_and_the_rule() {
    let place = Place::new("", &limit("9/minute"));
    let text = WireReceipt::new(three(), &place, "alice").to_string();
    let with = |index: usize, bytes: &[u8]| {
        let (fours, _) = text.as_bytes().as_chunks();
        let decode = |four: &[u8; 4]| base64::decode(*four).expect("a receipt");
        let mut all: Vec<u8> = fours.iter().flat_map(decode).collect();
        all[index..index + bytes.len()].copy_from_slice(bytes);
        base64::encode(base64::URL, &all).map(char::from).collect::<String>()
    };
    let refused = |text: &str| read(text).expect_err("not a receipt");
    let start = |text: &str| format!("receipt {text:?}: ");
    for (text, why) in [
        (String::new(), "0 characters; a receipt has 56".to_owned()),
        (text[..55].to_owned(), "55 characters; a receipt has 56".to_owned()),
        (format!("{text}A"), "57 characters; a receipt has 56".to_owned()),
        (with(0, &[7]), "version 7; the only known version is 1".to_owned()),
        (with(1, &[8]), "source 8; there is none of that number".to_owned()),
        (
            with(2, &[255]),
            format!("units {}; at most {MAX_UNITS} are possible", (255_u64 << 56) + 3),
        ),
        (with(10, &[255; 8]), format!("time {}; at most {LATEST} are possible", u64::MAX)),
        (with(18, &[255; 8]), format!("mark {}; at most {LATEST} are possible", u64::MAX)),
        (
            text.replace('A', "+"),
            "character '+'; only A-Z, a-z, 0-9, - and _ are allowed".to_owned(),
        ),
    ] {
        assert_eq!(refused(&text), start(&text) + &why);
    }
    let long = "A".repeat(1 << 20);
    assert!(refused(&format!("AQAA{long}")).len() < 200, "a long text is not repeated");
    let other =
        read(&text).and_then(|wire| wire.check(&place, "bob").map_err(|error| error.to_string()));
    assert_eq!(
        other,
        Err(format!(
            "receipt {text}: it is for another limit, key or namespace, or its text was changed"
        ))
    );
}

const MINUTE: u64 = 60_000_000;

fn memory(limit: &str) -> Limiter<Memory> {
    Memory::new().limiter_in("shop", limit).expect("a valid limit")
}

fn wire(limiter: &Limiter<Memory>, key: &str, decision: &Decision) -> Vec<WireReceipt> {
    let texts = limiter.wire_receipts(key, decision).map(|receipt| receipt.to_string());
    texts.map(|text| read(&text).expect("a receipt")).collect()
}

/// A correction takes units of the current window. With the receipt of the first hit the refund
/// finds that its window is over.
#[test]
fn a_refund_by_receipt_does_not_admit_more_in_the_next_window() {
    let (first, second) = (MINUTE * 1000 - 100_000, MINUTE * 1000 + 100_000);
    let [first, second] = [first, second].map(Timestamp::from_micros);
    let limiter = memory("1000/minute fixed-window");
    let hit = |at| limiter.at(at).hit_n("a", 900);
    let receipts = wire(&limiter, "a", &hit(first));
    assert!(hit(second).allowed());
    let refund = limiter.at(second).refund_wire_receipts("a", &receipts, Some(800));
    let refund = refund.expect("a refund");
    assert_eq!((refund.decision.used(), refund.decision.remaining()), (900, 100));
    assert!(!limiter.at(second).hit_n("a", 850).allowed());
    assert_eq!(limiter.at(second).refund_n("a", 800).used(), 100, "a correction");
}

#[test]
fn all_receipts_are_checked_before_any_is_refunded() {
    let limiter = memory("10/hour; 100/day");
    let own = wire(&limiter, "a", &limiter.hit_n("a", 3));
    let other_key = wire(&limiter, "b", &limiter.hit_n("b", 3));
    let other_limit = memory("9/hour");
    let other_limit = wire(&other_limit, "a", &other_limit.hit_n("a", 3));
    let other_namespace = Memory::new().limiter("10/hour").expect("a valid limit");
    let other_namespace = wire(&other_namespace, "a", &other_namespace.hit_n("a", 3));
    for wrong in [&other_key, &other_limit, &other_namespace] {
        let list = [&own[..], &wrong[..]].concat();
        let error = limiter.refund_wire_receipts("a", &list, None).expect_err("a wrong receipt");
        assert_eq!(error.kind(), ErrorKind::Request);
    }
    let more = limiter.refund_wire_receipts("a", &own, Some(4)).expect_err("it charged 3");
    assert_eq!(more.to_string(), format!("receipt {}: units 4; it charged only 3", own[0]));
    for count in [0, 257] {
        let list = vec![own[0]; count];
        let error = limiter.refund_wire_receipts("a", &list, None).expect_err("a wrong number");
        let rule = "a refund needs at least 1 and takes at most 256";
        assert_eq!(error.to_string(), format!("{count} receipts: {rule}"));
    }
    let used: Vec<u64> = limiter.peek("a").outcomes().iter().map(Outcome::used).collect();
    assert_eq!(used, [3, 3], "nothing was refunded");
}

#[test]
fn receipts_of_several_hits_and_of_some_limits_are_refunded_together() {
    let limiter = memory("10/hour fixed-window; 100/day fixed-window");
    let first = wire(&limiter, "a", &limiter.hit_n("a", 3));
    let second = wire(&limiter, "a", &limiter.hit_n("a", 2));
    let refund = limiter.refund_wire_receipts("a", &[second[1], first[0], second[0]], None);
    let used: Vec<u64> =
        refund.expect("a refund").decision.outcomes().iter().map(Outcome::used).collect();
    assert_eq!(used, [0, 3]);
}

#[test]
fn a_receipt_that_is_used_again_refunds_again_but_never_beyond_a_fresh_state() {
    let limiter = memory("10/hour fixed-window");
    let receipts = wire(&limiter, "a", &limiter.hit_n("a", 3));
    let refund = || limiter.refund_wire_receipts("a", &receipts, None).expect("a refund").decision;
    limiter.charge("a", 5);
    assert_eq!([refund().used(), refund().used(), refund().used()], [5, 2, 0]);
    assert_eq!(refund().remaining(), 10);
    limiter.reset("a");
    assert_eq!(refund().used(), 0);
    limiter.charge("a", 5);
    assert_eq!(refund().used(), 2);
}

#[test]
fn only_units_that_were_charged_have_a_receipt() {
    let limiter = memory("2/hour; 5/hour fixed-window charge-denied");
    let count = |decision: Decision| limiter.wire_receipts("a", &decision).count();
    assert_eq!(count(limiter.peek("a")), 0);
    assert_eq!(count(limiter.hit_n("a", 2)), 2);
    assert_eq!(count(limiter.hit("a")), 1, "only one of the limits charges denied hits");
}
