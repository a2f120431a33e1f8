//! One key of each kind, and many keys as stores want them.

use tollgate::{Key, KeyRef, Tagged};

/// A key by its number. The first [`TAGGED`](AnyKey::TAGGED) share a tag, so that every store can
/// decide them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnyKey(pub(crate) usize);

impl AnyKey {
    pub(crate) const TAGGED: usize = 4;
    pub(crate) const COUNT: usize = 11;
}

impl Key for AnyKey {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        match self.0 {
            0 => Tagged("acme", "alice").with_key(f),
            1 => Tagged("acme", "").with_key(f),
            2 => Tagged("acme", b"{\0\xff}").with_key(f),
            3 => Tagged("acme", ("alice", 7)).with_key(f),
            4 => "".with_key(f),
            5 => "alice".with_key(f),
            6 => b"\0\xff\0 %\n".with_key(f),
            7 => 42_u64.with_key(f),
            8 => ("alice", "GET").with_key(f),
            9 => ("alice", 7, "x".repeat(200)).with_key(f),
            _ => Tagged("alice", "GET").with_key(f),
        }
    }
}

/// Calls `f` with all these keys.
pub(crate) fn with_keys(keys: &[AnyKey], f: &mut dyn FnMut(&[KeyRef<'_>])) {
    fn next(keys: &[AnyKey], known: Vec<KeyRef<'_>>, f: &mut dyn FnMut(&[KeyRef<'_>])) {
        let Some((first, rest)) = keys.split_first() else { return f(&known) };
        first.with_key(|key| {
            let mut known: Vec<KeyRef<'_>> = known;
            known.push(key);
            next(rest, known, f);
        });
    }
    next(keys, Vec::new(), f);
}
