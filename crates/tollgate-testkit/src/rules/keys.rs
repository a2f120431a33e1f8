//! Two different (namespace, limit, key) never share a counter; the same one always does.

use tollgate::{Key, Tagged};

use crate::ground::{Ground, Limited, START, limit};
use crate::subject::Subject;

/// Hits a key for the first time: it must pass. And again: it must not.
fn is_a_key_of_its_own<S: Subject>(limited: &Limited<'_, S>, key: impl Key) {
    let name = key.with_key(|key| format!("{key:?}"));
    assert!(limited.hit(START, &key).allowed(), "{name} was hit before");
    assert!(!limited.hit(START, &key).allowed(), "{name} was not remembered");
}

/// Keys of any bytes and any form are keys of their own.
pub fn different_keys_never_share_a_counter<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for one in ground.of_texts(["1/hour", "1/hour fixed-window-per-key"]) {
        is_a_key_of_its_own(&one, "");
        is_a_key_of_its_own(&one, "\0");
        is_a_key_of_its_own(&one, Tagged("a", "c"));
        is_a_key_of_its_own(&one, ("a", "c"));
    }
    let _ = limit("1/hour");
}
