//! The waits that servers have asked for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate::Timestamp;
use tollgate_http::RequestKey;

/// At this many keys, those whose wait is over are dropped, or else the one that ends first. The
/// search visits all keys, so the number is small.
const MAX_KEYS: usize = 1_000;

/// The end of the wait of each key.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    until: Mutex<HashMap<RequestKey, Timestamp>>,
}

impl Holds {
    /// The remaining wait of a key.
    pub(crate) fn wait(&self, key: &RequestKey, now: Timestamp) -> Option<Duration> {
        let mut until = self.lock();
        let end = *until.get(key)?;
        if end > now {
            return Some(end.since(now));
        }
        until.remove(key);
        None
    }

    /// Holds a key for that long, unless it is held longer already.
    pub(crate) fn hold(&self, key: &RequestKey, wait: Duration, now: Timestamp) {
        let wait = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        let end = Timestamp::from_micros(now.as_micros().saturating_add(wait));
        let mut until = self.lock();
        if until.len() >= MAX_KEYS && !until.contains_key(key) {
            until.retain(|_, end| *end > now);
            if until.len() >= MAX_KEYS {
                let first = until.iter().min_by_key(|(_, end)| **end).map(|(key, _)| key.clone());
                first.map(|first| until.remove(&first));
            }
        }
        let held = until.entry(key.clone()).or_insert(end);
        *held = end.max(*held);
    }

    /// Locks the map, also after a panic elsewhere: entries are always complete.
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestKey, Timestamp>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> RequestKey {
        RequestKey::Bytes(number.to_string().into_bytes().into())
    }

    #[test]
    fn a_hold_is_never_shortened_and_ends() {
        let (holds, now) = (Holds::default(), Timestamp::from_micros(5));
        holds.hold(&key(1), Duration::from_secs(9), now);
        holds.hold(&key(1), Duration::from_secs(1), now);
        assert_eq!(holds.wait(&key(1), now), Some(Duration::from_secs(9)));
        assert_eq!(holds.wait(&key(2), now), None);
        assert_eq!(holds.wait(&key(1), Timestamp::from_micros(9_000_005)), None);
        assert_eq!(holds.lock().len(), 0, "what is over is forgotten");
    }

    #[test]
    fn hosts_without_end_do_not_fill_the_memory() {
        let (holds, now) = (Holds::default(), Timestamp::from_micros(0));
        for number in 0..2 * MAX_KEYS {
            holds.hold(&key(number), Duration::from_secs(1 + number as u64), now);
        }
        assert_eq!(holds.lock().len(), MAX_KEYS);
        assert!(holds.wait(&key(2 * MAX_KEYS - 1), now).is_some());
        holds.hold(&key(0), Duration::MAX, Timestamp::from_micros(u64::MAX));
        assert_eq!(holds.lock().len(), 1, "all others were over");
    }
}
