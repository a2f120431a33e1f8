//! Two different (namespace, limit, key) never share a counter; the same one always does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tollgate::{Key, KeyRef, Tagged};

use crate::ground::{Ground, Limited, START, limit};
use crate::random::{Random, SEED, cases, seed};
use crate::subject::Subject;

/// Texts that separate, escape, tag, match or end something in some store.
const TEXTS: [&str; 40] = [
    "", "\0", "\0\0", " ", "  ", "a", "A", "a ", " a", "\n", "\r\n", "a\nb", "\t", ":", "::",
    "a:b", "a::b", "/", "a/b", "a_b", "{", "}", "{}", "{a}", "{a}b", "a{b}", "{a:b}", "%", "%%",
    "%3A", "%3a", "a%3Ab", "%00", "*", "?", "[a]", "\\", "'", "\"", "ключ",
];

/// The first hit of a key must pass, the second must not.
fn is_a_key_of_its_own<S: Subject>(limited: &Limited<'_, S>, key: impl Key) {
    let name = key.with_key(|key| format!("{key:?}"));
    assert!(limited.hit(START, &key).allowed(), "{name} was hit before");
    assert!(!limited.hit(START, &key).allowed(), "{name} was not remembered");
}

/// Keys of any bytes and any form never share a counter: empty, with zeros, separators and bytes
/// that are not text; tuples that look alike; tagged.
pub fn different_keys_never_share_a_counter<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for one in ground.of_texts(["1/hour", "1/hour moving-window", "1/hour sliding-window"]) {
        for text in TEXTS {
            is_a_key_of_its_own(&one, text);
            is_a_key_of_its_own(&one, (text,));
            is_a_key_of_its_own(&one, (text, "b"));
            is_a_key_of_its_own(&one, ("b", (text, "b")));
            is_a_key_of_its_own(&one, Tagged(text, "b"));
            is_a_key_of_its_own(&one, Tagged("b", text));
        }
        is_a_key_of_its_own(&one, None::<&str>);
        is_a_key_of_its_own(&one, (None::<&str>,));
        is_a_key_of_its_own(&one, (None::<&str>, "b"));
        is_a_key_of_its_own(&one, b"\xff");
        is_a_key_of_its_own(&one, b"\xff\xfe");
        is_a_key_of_its_own(&one, b"\xc3\xbf"); // 0xff as a letter
        is_a_key_of_its_own(&one, ("", "", ""));
        is_a_key_of_its_own(&one, ("a/b", "c"));
        is_a_key_of_its_own(&one, ("a", "b/c"));
        is_a_key_of_its_own(&one, ("a", "b_c"));
        is_a_key_of_its_own(&one, ("a_b", "c"));
        is_a_key_of_its_own(&one, ("a", "b", "c"));
        is_a_key_of_its_own(&one, (("a", "b"), "c"));
        is_a_key_of_its_own(&one, ("a", ("b", "c")));
        is_a_key_of_its_own(&one, Tagged("c", ("a", "b")));
        is_a_key_of_its_own(&one, Tagged("a", Tagged("b", "c")));
        is_a_key_of_its_own(&one, Tagged(Tagged("a", "b"), "c"));
        // The bytes of a tuple as a single part.
        is_a_key_of_its_own(&one, ("a", "c").with_key(|key| key.bytes().to_vec()));
    }
}

/// The same with random pairs of random bytes.
pub fn random_keys_never_share_a_counter<S: Subject>(subject: &S) {
    let seed = seed();
    let mut random = Random::new(seed);
    let ground = Ground::new(subject);
    let one = ground.limited(&limit("1/hour")).expect("GCRA of one an hour is held by every store");
    for n in 0..cases(300) {
        let (a, b) = alike(&mut random);
        // The number makes the name unique, in place of a fresh store.
        assert!(one.hit(START, (n, &a.0, &a.1)).allowed(), "{a:?}; {SEED}={seed}");
        let apart = one.hit(START, (n, &b.0, &b.1)).allowed();
        assert_eq!(apart, a != b, "{a:?} and {b:?}; {SEED}={seed}");
    }
}

type Pair = (Vec<u8>, Vec<u8>);

/// Two pairs that become equal when they are joined naively: one has inside a part what separates
/// the parts of the other.
fn alike(random: &mut Random) -> (Pair, Pair) {
    let separator: &[u8] = [&b""[..], b":", b"/", b"\0", b"_", b", "][random.index(5)];
    let piece = |random: &mut Random| {
        let len = if random.below(8) == 0 { 120 + random.below(20) } else { random.below(3) };
        (0..len).map(|_| b"a%{}\xff\x01\x02"[random.index(7)]).collect::<Vec<u8>>()
    };
    let pieces = [piece(random), piece(random), piece(random)];
    let [x, y, z] = &pieces;
    let joined = |a: &[u8], b: &[u8]| [a, separator, b].concat();
    ((joined(x, y), z.clone()), (x.clone(), joined(y, z)))
}

/// Long keys, and keys around the lengths at which their storage changes, differ in any byte.
pub fn long_keys_differ_in_any_byte<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let one = ground.limited(&limit("1/hour")).expect("GCRA of one an hour is held by every store");
    for len in [1_usize, 18, 19, 31, 32, 126, 127, 128, 129, 250, 251, 255, 256, 257, 1_000, 20_000]
    {
        let mut key = vec![b'k'; len];
        is_a_key_of_its_own(&one, &key);
        assert_eq!(one.usage(START, &key), 1, "usage of a key of {len}");
        is_a_key_of_its_own(&one, (&key, "x"));
        is_a_key_of_its_own(&one, ("x", &key));
        for at in [0, len / 2, len - 1] {
            key[at] ^= 1;
            assert!(one.peek(START, &key).allowed(), "byte {at} of {len}");
            assert!(one.peek(START, (&key, "x")).allowed(), "byte {at} of {len}");
            key[at] ^= 1;
        }
        key.push(0);
        assert!(one.peek(START, &key).allowed(), "{len} and a zero");
    }
}

/// `42`, `"42"`, `Some(42)` and the bytes `42` are one key.
pub fn integers_and_addresses_are_their_text<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let one = ground.limited(&limit("1/hour")).expect("GCRA of one an hour is held by every store");
    let hit = |key: &dyn Fn() -> bool, text: &str| {
        assert!(one.hit(START, text).allowed(), "{text}");
        assert!(!key(), "{text}");
    };
    hit(&|| one.hit(START, 0_u8).allowed(), "0");
    hit(&|| one.hit(START, 42_u64).allowed(), "42");
    hit(&|| one.hit(START, -42_i32).allowed(), "-42");
    hit(&|| one.hit(START, u128::MAX).allowed(), &u128::MAX.to_string());
    hit(&|| one.hit(START, Ipv4Addr::LOCALHOST).allowed(), "127.0.0.1");
    hit(&|| one.hit(START, IpAddr::from(Ipv6Addr::LOCALHOST)).allowed(), "::1");
    hit(&|| one.hit(START, true).allowed(), "true");
    hit(&|| one.hit(START, 'é').allowed(), "é");
    hit(&|| one.hit(START, Some(43)).allowed(), "43");
    assert!(one.hit(START, ("user", 7)).allowed());
    assert!(!one.hit(START, ("user", "7")).allowed());
    assert!(!one.hit(START, KeyRef::plain(b"42")).allowed());
}

/// The same limit and key in another namespace is another counter; in the same namespace it is the
/// same, through any handle and in a policy.
pub fn namespaces_never_share_a_counter<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let mine = limit("1/hour");
    for name in TEXTS {
        let ground = ground.within(name);
        let Some(one) = ground.limited(&mine) else { continue };
        is_a_key_of_its_own(&one, "key");
        is_a_key_of_its_own(&one, "a:key");
        let again = ground.again().limited(&mine).expect("held a moment ago");
        assert!(!again.hit(START, "key").allowed(), "{name:?} twice is one");
    }
    // The end of one could be the start of the other.
    let pairs =
        [("a", "b:c"), ("a:b", "c"), ("a/b", "c"), ("a", "b/c"), ("a}", "{b"), ("a", "}{b")];
    for (name, key) in pairs {
        let Some(one) = ground.within(&format!("|{name}")).limited(&mine) else { continue };
        is_a_key_of_its_own(&one, key);
    }
}

/// Limits that differ in any property have different counters, except for the quota of a limit with
/// a name.
pub fn different_limits_never_share_a_counter<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let texts = [
        "1/hour",
        "1/60 minutes name=a",
        "1/hour name=b",
        "1/hour name=a:b",
        "1/day",
        "1/hour burst=2",
        "2/hour burst=1",
        "1/hour fixed-window",
        "1/hour fixed-window charge-denied",
        "1/hour fixed-window-per-key",
        "1/hour sliding-window",
        "1/hour moving-window",
        "1/hour elastic-window",
        "1/hour token-bucket",
        "1/hour leaky-bucket",
        "1/hour token-bucket name=a",
        "1/day name=a",
    ];
    for text in texts {
        let Some(fresh) = ground.limited(&limit(text)) else { continue };
        assert_eq!(fresh.usage(START, "key"), 0, "{text}");
        assert!(fresh.hit(START, "key").allowed(), "{text}");
        let again = ground.again().limited(&limit(text)).expect("held a moment ago");
        assert_eq!(again.usage(START, "key"), 1, "{text}");
    }
}

/// A limit has one counter, alone and in every policy that contains it.
pub fn a_limit_is_one_counter_alone_and_in_policies<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let policy = |text: &str| ground.policy(&text.parse().expect("a policy"));
    let alone = ground.limited(&limit("4/hour"));
    let first = policy("4/hour; 9/day");
    let second = policy("9/day; 4/hour; 2/hour fixed-window-per-key");
    let (Some(alone), Some(first), Some(second)) = (alone, first, second) else { return };
    let (first, second) = (first.at(START), second.at(START));
    assert!(alone.hit(START, "key").allowed());
    assert!(alone.must(first.hit("key")).allowed());
    assert!(alone.must(second.hit("key")).allowed());
    assert_eq!(alone.usage(START, "key"), 3);
    let used = |decision: tollgate::Decision| {
        decision.outcomes().iter().map(tollgate::Outcome::used).collect::<Vec<_>>()
    };
    assert_eq!(used(alone.must(first.peek_n("key", 1))), [3, 2]);
    assert_eq!(used(alone.must(second.peek_n("key", 1))), [2, 3, 1]);
    assert!(alone.must(second.hit("key")).allowed());
    assert!(!alone.hit(START, "key").allowed());
    assert!(!alone.must(first.hit("key")).allowed());
}

/// The counters stay when the quota of a named limit is raised and lowered between calls.
pub fn a_changed_quota_keeps_the_counters_of_a_named_limit<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let windows = [
        "fixed-window",
        "fixed-window-per-key",
        "elastic-window",
        "sliding-window",
        "moving-window",
    ];
    for algorithm in windows {
        let of = |quota| ground.limited(&limit(&format!("{quota}/hour {algorithm} name=plan")));
        let (Some(small), Some(large)) = (of(3), of(5)) else { continue };
        assert!(small.hit_n(START, "key", 3).allowed(), "{algorithm}");
        assert!(!small.hit(START, "key").allowed(), "{algorithm}");
        let seen = large.peek(START, "key");
        assert_eq!((seen.used(), seen.remaining()), (3, 2), "{algorithm} raised");
        assert!(large.hit_n(START, "key", 2).allowed(), "{algorithm} raised");
        let seen = small.peek(START, "key");
        assert_eq!((seen.used(), seen.remaining()), (5, 0), "{algorithm} lowered");
        assert!(!small.hit(START, "key").allowed(), "{algorithm} lowered");
    }
    // A bucket keeps its level, or the time until which it is in use.
    for (algorithm, used) in [("token-bucket", 3), ("leaky-bucket", 3), ("gcra", 6)] {
        let small = ground.limited(&limit(&format!("3/hour {algorithm} name=plan")));
        let large = ground.limited(&limit(&format!("6/hour {algorithm} burst=8 name=plan")));
        let (Some(small), Some(large)) = (small, large) else { continue };
        assert!(small.hit_n(START, "key", 3).allowed(), "{algorithm}");
        assert_eq!(large.usage(START, "key"), used, "{algorithm} raised");
        assert!(large.hit_n(START, "key", 2).allowed(), "{algorithm} raised");
        assert!(!small.hit(START, "key").allowed(), "{algorithm} lowered");
    }
}
