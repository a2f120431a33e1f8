//! Tests that calls with the same namespace, limit and key use the same counter, and that all other
//! calls use different counters.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate::{Decision, Key, KeyRef, Limiter, Outcome, OwnedKey, Store, Tagged, hit_all};

use super::{HOUR, START, Subject, limiter, policy, store};

/// Asserts that the key shares no counter with the keys before it: its first hit must pass, and its
/// second hit must not.
fn assert_new_key<S: Store>(limiter: &Limiter<S>, key: impl Key) {
    let name = key.with_key(|key| format!("{key:?}"));
    assert!(limiter.hit(&key).allowed(), "{name} shares a counter with an earlier key");
    assert!(!limiter.hit(&key).allowed(), "{name} has no counter");
}

pub(super) fn different_keys_never_share_a_counter<S: Subject>() {
    let (store, _) = store::<S>();
    let one = limiter(&store, "1/hour");
    assert_new_key(&one, "");
    assert_new_key(&one, "\0");
    assert_new_key(&one, "\0\0");
    assert_new_key(&one, b"\xff\xfe");
    assert_new_key(&one, "a");
    assert_new_key(&one, "A");
    assert_new_key(&one, "a ");
    assert_new_key(&one, None::<&str>);
    assert_new_key(&one, (None::<&str>,));
    assert_new_key(&one, (None::<&str>, "a"));
    assert_new_key(&one, ("a",));
    assert_new_key(&one, (("a",),));
    assert_new_key(&one, ("a", ""));
    assert_new_key(&one, ("", "a"));
    assert_new_key(&one, ("", ""));
    assert_new_key(&one, ("", "", ""));
    assert_new_key(&one, ("a/b", "c"));
    assert_new_key(&one, ("a", "b/c"));
    assert_new_key(&one, ("a", "b_c"));
    assert_new_key(&one, ("a_b", "c"));
    assert_new_key(&one, ("a", "b", "c"));
    assert_new_key(&one, (("a", "b"), "c"));
    assert_new_key(&one, ("a", ("b", "c")));
    assert_new_key(&one, Tagged("a", "c"));
    assert_new_key(&one, ("a", "c"));
    assert_new_key(&one, (Tagged("a", "c"), "c"));
    // The last key is a single part that contains the bytes of a tuple.
    let framed = ("a", "c").with_key(|key| key.bytes().to_vec());
    assert_new_key(&one, framed);

    let parts = || vec(prop_oneof![vec(any::<u8>(), 0..4), vec(any::<u8>(), 120..140)], 2);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let run = runner.run(&(parts(), parts()), |(a, b)| {
        one.clear();
        assert!(one.hit((&a[0], &a[1])).allowed());
        prop_assert_eq!(one.hit((&b[0], &b[1])).allowed(), a != b);
        Ok(())
    });
    if let Err(failure) = run {
        panic!("{failure}");
    }
}

pub(super) fn keys_of_any_length_that_differ_in_one_byte_are_different_keys<S: Subject>() {
    let (store, _) = store::<S>();
    let one = limiter(&store, "1/hour");
    // These lengths are around those at which a key or a tuple is stored on the heap, or as a
    // digest.
    for len in [
        1_usize, 17, 18, 19, 20, 31, 32, 33, 126, 127, 128, 129, 130, 250, 256, 257, 1_000, 100_000,
    ] {
        let mut key = vec![b'k'; len];
        assert_new_key(&one, &key);
        assert_new_key(&one, (&key, "x"));
        assert_new_key(&one, ("x", &key));
        for at in [0, len / 2, len - 1] {
            key[at] ^= 1;
            assert!(one.peek(&key).allowed(), "byte {at} of {len}");
            assert!(one.peek((&key, "x")).allowed(), "byte {at} of {len}");
            assert!(one.peek(("x", &key)).allowed(), "byte {at} of {len}");
            key[at] ^= 1;
        }
        key.push(0);
        assert!(one.peek(&key).allowed(), "{len} bytes and a zero byte");
    }
}

/// A long key uses the same counter in every call, and so does the digest that stores keep.
pub(super) fn a_long_key_has_the_same_counter_in_every_call<S: Subject>() {
    let (store, _) = store::<S>();
    let long = "k".repeat(5_000);
    check_calls(&store, &long);
    check_calls(&store, (&long, 7));
    check_calls(&store, Tagged(&long, &long));
    check_calls(&store, Tagged("tag", &long));
    check_calls(&store, "short");
}

fn check_calls<S: Subject>(store: &S, key: impl Key + Copy) {
    let (one, several) = (limiter(store, "9/hour"), policy(store, "9/hour; 9/day"));
    let kept = OwnedKey::new(&key);
    assert!(one.hit(key).allowed());
    assert!(one.at(START).hit(key).allowed());
    assert!(several.hit(key).allowed());
    assert!(hit_all(&[one.item(key, 1)]).expect("one item").allowed());
    assert!(one.wait_blocking(key, 1, HOUR).allowed());
    assert_eq!(one.charge(key, 1).used(), 6);
    one.hit_each(&[key, key], |_, hit| assert!(hit.allowed()));
    assert_eq!((one.usage(key), one.usage(&kept)), (8, 8));
    assert_eq!(one.refund_n(key, 3).used(), 5);
    assert!(one.reset(&kept) && !one.reset(key));
}

pub(super) fn integers_and_addresses_are_the_same_keys_as_their_text<S: Subject>() {
    let (store, _) = store::<S>();
    let one = limiter(&store, "1/hour");
    let is_text = |key: &dyn Fn() -> bool, text: &str| {
        assert!(one.hit(text).allowed(), "{text}");
        assert!(!key(), "{text}");
    };
    is_text(&|| one.hit(0_u8).allowed(), "0");
    is_text(&|| one.hit(42_u64).allowed(), "42");
    is_text(&|| one.hit(-42_i32).allowed(), "-42");
    is_text(&|| one.hit(u128::MAX).allowed(), &u128::MAX.to_string());
    is_text(&|| one.hit(i128::MIN).allowed(), &i128::MIN.to_string());
    is_text(&|| one.hit(Ipv4Addr::LOCALHOST).allowed(), "127.0.0.1");
    is_text(&|| one.hit(IpAddr::from(Ipv6Addr::LOCALHOST)).allowed(), "::1");
    is_text(&|| one.hit(true).allowed(), "true");
    is_text(&|| one.hit('é').allowed(), "é");
    is_text(&|| one.hit(Some(43)).allowed(), "43");
    let scoped: SocketAddr =
        "[ffff:eeee:dddd:cccc:bbbb:aaaa:9999:8888%4294967295]:65535".parse().expect("an address");
    is_text(&|| one.hit(scoped).allowed(), &scoped.to_string());
    // The text is also the same key as part of a tuple, and through pointers.
    assert!(one.hit(("user", 7)).allowed());
    assert!(!one.hit(("user", "7")).allowed());
    assert!(!one.hit(Box::new((String::from("user"), &7_i8))).allowed());
    assert!(!one.hit("42".with_key(|key| key.bytes().to_vec())).allowed());
    assert!(!one.hit(KeyRef::plain(b"42")).allowed());
}

pub(super) fn different_namespaces_never_share_a_counter<S: Subject>() {
    let (store, _) = store::<S>();
    for namespace in ["", "a", "b", "a/", "a\0", "a; 1/hour"] {
        let one = Limiter::new(&store, namespace, "1/hour").expect(namespace);
        assert_new_key(&one, "key");
        let again = Limiter::new(&store, namespace, "1/hour").expect(namespace);
        assert!(
            !again.hit("key").allowed(),
            "{namespace:?}: a second limiter has the same counters"
        );
        let several = Limiter::new(&store, namespace, "1/hour; 9/day").expect(namespace);
        assert!(!several.hit("key").allowed(), "{namespace:?}: a policy has the same counters");
    }
}

pub(super) fn different_limits_never_share_a_counter<S: Subject>() {
    let (store, _) = store::<S>();
    let limits = [
        "1/hour",
        "1/60 minutes name=a",
        "1/hour name=b",
        "1/day",
        "1/hour burst=2",
        "2/hour burst=1",
        "1/hour fixed-window",
        "1/hour fixed-window charge-denied",
        "1/hour fixed-window-per-key",
        "1/hour sliding-window",
        "1/hour elastic-window",
        "1/hour token-bucket",
        "1/hour leaky-bucket",
        "1/hour token-bucket name=a",
        "1/day name=a",
    ];
    for limit in limits {
        let fresh = limiter(&store, limit);
        assert_eq!(fresh.usage("key"), 0, "{limit}");
        assert!(fresh.hit("key").allowed(), "{limit}");
        assert_eq!(limiter(&store, limit).usage("key"), 1, "{limit}");
    }
}

pub(super) fn a_changed_quota_keeps_the_counters_of_a_named_limit<S: Subject>() {
    let (store, _) = store::<S>();
    for algorithm in ["fixed-window", "fixed-window-per-key", "elastic-window", "sliding-window"] {
        let small = limiter(&store, &format!("3/hour {algorithm} name=plan"));
        let large = limiter(&store, &format!("5/hour {algorithm} name=plan"));
        assert!(small.hit_n("key", 3).allowed());
        assert!(!small.hit("key").allowed());
        assert_eq!((large.usage("key"), large.peek("key").remaining()), (3, 2), "{algorithm}");
        assert!(large.hit_n("key", 2).allowed());
        assert_eq!((small.usage("key"), small.peek("key").remaining()), (5, 0), "{algorithm}");
    }
    // Token and leaky buckets keep their level. GCRA keeps the time until which units are in use.
    for (algorithm, used) in [("token-bucket", 3), ("leaky-bucket", 3), ("gcra", 6)] {
        let small = limiter(&store, &format!("3/hour {algorithm} name=plan"));
        let large = limiter(&store, &format!("6/hour {algorithm} burst=8 name=plan"));
        assert!(small.hit_n("key", 3).allowed());
        assert_eq!(large.usage("key"), used, "{algorithm}");
    }
}

pub(super) fn a_limit_has_the_same_counter_alone_and_in_policies<S: Subject>() {
    let (store, _) = store::<S>();
    let alone = limiter(&store, "4/hour");
    let first = policy(&store, "4/hour; 9/day");
    let second = policy(&store, "9/day; 4/hour; 2/hour fixed-window-per-key");
    assert!(alone.hit("key").allowed());
    assert!(first.hit("key").allowed());
    assert!(second.hit("key").allowed());
    assert_eq!(alone.usage("key"), 3);
    assert_eq!(used(&first.peek("key")), [3, 2]);
    assert_eq!(used(&second.peek("key")), [2, 3, 1]);
    assert!(second.hit("key").allowed());
    assert!(!alone.hit("key").allowed());
    assert!(!first.hit("key").allowed());
}

/// Returns the units in use of each limit.
fn used(decision: &Decision) -> Vec<u64> {
    decision.outcomes().iter().map(Outcome::used).collect()
}
