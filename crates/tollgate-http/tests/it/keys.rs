//! Different callers have different keys, and keys are hashed where they are secrets.

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::Key;
use tollgate::key::Form;
use tollgate_http::{Head, KeyBy, RequestKey};

use crate::heads::{AnyLines, address};

/// The key as a store sees it.
fn stored(key: &RequestKey) -> (Form, Vec<u8>) {
    key.with_key(|key| (key.form(), key.bytes().to_vec()))
}

fn of(by: &KeyBy, head: &Head<'_>) -> Option<(Form, Vec<u8>)> {
    by.find(head).map(|key| stored(&key))
}

/// Two headers, each of which may be missing, with values full of separators of other libraries.
fn two() -> impl Strategy<Value = [Option<Vec<u8>>; 2]> {
    let byte = prop_oneof![prop::sample::select(b"ab/_:,;|01\0\x02".to_vec()), any::<u8>()];
    let value = prop::option::of(vec(byte, 0..5));
    [value.clone(), value]
}

/// The meaning of the values: whether they are present, and without surrounding blanks.
fn meant(values: &[Option<Vec<u8>>; 2]) -> [Option<Vec<u8>>; 2] {
    values.clone().map(|value| {
        value.map(|value| value.trim_ascii().to_vec()).filter(|value| !value.is_empty())
    })
}

fn request(values: &[Option<Vec<u8>>; 2]) -> AnyLines {
    let names = ["x-a", "x-b"];
    AnyLines(
        names
            .into_iter()
            .zip(values)
            .filter_map(|(name, value)| Some((name, value.clone()?)))
            .collect(),
    )
}

fn a() -> KeyBy {
    KeyBy::header("X-A")
}

fn b() -> KeyBy {
    KeyBy::header("x-b")
}

proptest! {
    #[test]
    fn a_and_b_is_the_pair_and_nothing_else(one in two(), other in two()) {
        let keys = [&one, &other].map(|values| of(&a().and(b()), &request(values).head()));
        for (key, values) in keys.iter().zip([&one, &other]) {
            prop_assert_eq!(key.is_some(), meant(values).iter().all(Option::is_some));
        }
        if keys.iter().all(Option::is_some) {
            prop_assert_eq!(keys[0] == keys[1], meant(&one) == meant(&other));
        }
    }

    #[test]
    fn a_or_b_is_the_first_and_keys_of_the_two_never_collide(one in two(), other in two()) {
        let first = |values: &[Option<Vec<u8>>; 2]| {
            meant(values).into_iter().enumerate().find_map(|(index, value)| Some((index, value?)))
        };
        let keys = [&one, &other].map(|values| of(&a().or(b()), &request(values).head()));
        for (key, values) in keys.iter().zip([&one, &other]) {
            prop_assert_eq!(key.is_some(), first(values).is_some());
        }
        if keys.iter().all(Option::is_some) {
            prop_assert_eq!(keys[0] == keys[1], first(&one) == first(&other));
        }
    }

    #[test]
    fn combinations_of_combinations_do_not_run_together(one in two(), other in two()) {
        // All four in one: a pair, else the first, and the same nested the other way.
        let by = a().and(b()).or(a()).or(b().and(KeyBy::everyone()));
        let shape = |values: &[Option<Vec<u8>>; 2]| match meant(values) {
            [Some(a), Some(b)] => Some((0, vec![a, b])),
            [Some(a), None] => Some((1, vec![a])),
            [None, Some(b)] => Some((2, vec![b])),
            [None, None] => None,
        };
        let keys = [&one, &other].map(|values| of(&by, &request(values).head()));
        for (key, values) in keys.iter().zip([&one, &other]) {
            prop_assert_eq!(key.is_some(), shape(values).is_some());
        }
        if keys.iter().all(Option::is_some) {
            prop_assert_eq!(keys[0] == keys[1], shape(&one) == shape(&other));
        }
    }

    #[test]
    fn plain_and_combined_keys_of_the_same_values_differ(values in two()) {
        let request = request(&values);
        let head = request.head();
        let all = [a(), a().and(b()), a().or(b()), a().and(b().and(a())), a().and(b()).and(a()), KeyBy::api_key("x-a")];
        let keys: Vec<_> = all.iter().filter_map(|by| of(by, &head)).collect();
        for (index, key) in keys.iter().enumerate() {
            prop_assert!(!keys[..index].contains(key), "{keys:?}");
        }
    }

    #[test]
    fn secrets_are_hashed_and_differ(one in "[!-~]{1,40}", other in "[!-~]{1,40}") {
        let bearer = |token: &str| AnyLines::one("authorization", format!("Bearer {token}"));
        let api_key = |token: &str| AnyLines::one("x-api-key", token);
        let bearers = [&one, &other].map(|token| of(&KeyBy::bearer(), &bearer(token).head()).unwrap());
        let api_keys = [&one, &other].map(|token| of(&KeyBy::api_key("X-API-Key"), &api_key(token).head()).unwrap());
        for keys in [&bearers, &api_keys] {
            prop_assert_eq!(keys[0] == keys[1], one == other);
            for (_, bytes) in keys {
                prop_assert!(bytes.len() == 32 && bytes.iter().all(u8::is_ascii_hexdigit));
            }
        }
        if one.len() > 8 {
            let shown = String::from_utf8(bearers[0].1.clone()).unwrap();
            prop_assert!(!shown.contains(&one));
        }
    }

    #[test]
    fn no_header_makes_a_key_panic(value in vec(any::<u8>(), 0..40)) {
        for name in ["authorization", "x-a"] {
            let request = AnyLines::one(name, &value);
            for by in [KeyBy::bearer(), KeyBy::api_key("x-a"), a(), a().or(KeyBy::bearer())] {
                let _ = of(&by, &request.head());
            }
        }
    }
}

#[test]
fn separators_in_values_do_not_make_two_callers_one() {
    // ("a/b", "c") and ("a", "b/c") shared a counter in `limits`, ("a", "b_c") and ("a_b", "c") in
    // envoyproxy/ratelimit.
    for separator in ['/', '_', ':', '|', ',', ' '] {
        let (ab, bc) = (format!("a{separator}b"), format!("b{separator}c"));
        let one = AnyLines::one("x-a", &ab).and("x-b", "c");
        let other = AnyLines::one("x-a", "a").and("x-b", &bc);
        assert_ne!(of(&a().and(b()), &one.head()), of(&a().and(b()), &other.head()));
    }
}

#[test]
fn a_key_of_two_values_differs_from_a_key_of_the_first_value() {
    // "0" would be an obvious way to encode "the first", and a client may send it.
    for value in ["0", "1"] {
        let request = AnyLines::one("x-a", value).and("x-b", value);
        assert_ne!(of(&a().and(b()), &request.head()), of(&a().or(b()), &request.head()));
    }
}

#[test]
fn an_empty_key_is_a_missing_one() {
    // Flask-Limiter and slowapi skipped the limit for these values.
    for value in ["", " ", "\t "] {
        let request = AnyLines::one("x-a", value).and("authorization", format!("Bearer {value}"));
        let function = KeyBy::function(|_| Some(Vec::new()));
        for by in [a(), KeyBy::api_key("x-a"), KeyBy::bearer(), function, a().and(b()), a().or(b())]
        {
            assert!(by.find(&request.head()).is_none(), "{by:?}");
        }
    }
}

#[test]
fn the_scheme_of_a_bearer_token_has_any_case_and_no_other_scheme_has_a_token() {
    let token = |value: &str| of(&KeyBy::bearer(), &AnyLines::one("authorization", value).head());
    assert_eq!(token("Bearer abc"), token("BEARER   abc "));
    assert!(token("Bearer abc").is_some());
    for other in ["Basic abc", "Bearer", "Bearerabc", "", "abc", "Digest x"] {
        assert_eq!(token(other), None, "{other}");
    }
}

#[test]
fn a_secret_is_hashed_alike_in_every_process() {
    let key = of(&KeyBy::api_key("x-a"), &AnyLines::one("x-a", "abc").head()).unwrap();
    assert_eq!(key.1, b"ba7816bf8f01cfea414140de5dae2223", "the first half of SHA-256 of abc");
}

#[test]
fn method_path_and_everyone_give_their_keys() {
    let headers = AnyLines::default();
    let head = Head::new("POST", "/a/b", &headers);
    assert_eq!(of(&KeyBy::method(), &head).unwrap().1, b"POST");
    assert_eq!(of(&KeyBy::path(), &head).unwrap().1, b"/a/b");
    assert_eq!(of(&KeyBy::everyone(), &head).unwrap().1, b"");
    let tenant = KeyBy::function(|head| head.path.split('/').nth(1).map(Into::into));
    assert_eq!(of(&tenant, &head).unwrap().1, b"a");
}

#[test]
fn debug_output_of_keys_and_heads_hides_personal_data() {
    let headers = AnyLines::one("x-a", "s3cret").and("authorization", "Bearer s3cret");
    let head = headers.from(address("192.0.2.77"));
    for by in [a(), KeyBy::bearer(), KeyBy::default(), a().and(KeyBy::default()), b().or(a())] {
        let key = by.find(&head).unwrap();
        let shown = format!("{key:?} {by:?} {head:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("192.0.2.77"), "{shown}");
    }
}
