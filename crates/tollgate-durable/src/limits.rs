//! The limits of a store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tollgate::algorithm::AnyMachine;
use tollgate::keyed::{Overflow, lock};
use tollgate::shared::Place;
use tollgate::{Error, Limit, Timestamp};

use crate::mark::Reserve;

/// A limit in a namespace, shared by its limiters and its keys.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) place: Place,
    /// The number of the place in the names of records, once it has one.
    number: OnceLock<u32>,
    /// The limit as it was prepared last: a named limit may change its quota.
    latest: Mutex<Rule>,
    overflow: Overflow,
}

/// The numbers of a limit, and its reserve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) machine: AnyMachine,
    pub(crate) reserve: Reserve,
}

impl Rule {
    /// `interval` is the interval of commits if keys get a reserve.
    pub(crate) fn new(limit: &Limit, interval: Option<Duration>) -> Rule {
        let reserve = interval.map_or(Reserve::NOTHING, |interval| Reserve::of(limit, interval));
        Rule { machine: AnyMachine::new(limit), reserve }
    }
}

impl Known {
    pub(crate) fn latest(&self) -> Rule {
        *lock(&self.latest)
    }

    pub(crate) fn number(&self) -> Option<u32> {
        self.number.get().copied()
    }

    pub(crate) fn overflow(&self) -> &Overflow {
        &self.overflow
    }
}

/// The limits in memory, one entry for each place until it is forgotten.
#[derive(Debug)]
pub(crate) struct Limits {
    entries: Mutex<Entries>,
    max: usize,
    /// How often unused limits are removed to make room for a new one.
    pause: Duration,
}

#[derive(Debug, Default)]
struct Entries {
    by_prefix: HashMap<Box<[u8]>, Arc<Known>>,
    by_number: HashMap<u32, Weak<Known>>,
    /// When unused limits may next be removed to make room.
    forget_due: Timestamp,
}

impl Limits {
    pub(crate) fn new(max: usize, clean_period: Duration) -> Limits {
        Limits { entries: Mutex::default(), max, pause: clean_period / 16 }
    }

    /// The limit at this place. `number` returns the number of a place in the file, if it has one.
    ///
    /// # Errors
    /// When the store holds as many limits as it may, and all are in use.
    pub(crate) fn entry(
        &self,
        place: Place,
        rule: Rule,
        now: Timestamp,
        number: impl FnOnce(&Place) -> Option<u32>,
    ) -> Result<Arc<Known>, Error> {
        let mut entries = lock(&self.entries);
        if let Some(known) = entries.by_prefix.get(place.prefix()) {
            *lock(&known.latest) = rule;
            return Ok(Arc::clone(known));
        }
        if entries.by_prefix.len() >= self.max && now >= entries.forget_due {
            entries.forget(now);
            entries.forget_due = now + self.pause;
        }
        if entries.by_prefix.len() >= self.max {
            return Err(Error::request(format!(
                "{} limits: the store holds no more of them (max_limits), and all are in use",
                self.max
            )));
        }
        let prefix = place.prefix().into();
        let number = number(&place);
        let known = Arc::new(Known {
            place,
            number: number.map(OnceLock::from).unwrap_or_default(),
            latest: Mutex::new(rule),
            overflow: Overflow::default(),
        });
        if let Some(number) = number {
            entries.by_number.insert(number, Arc::downgrade(&known));
        }
        entries.by_prefix.insert(prefix, Arc::clone(&known));
        Ok(known)
    }

    /// The number of a limit in the file; the one that `make` returns if it has none yet.
    pub(crate) fn number(&self, known: &Arc<Known>, make: impl FnOnce() -> u32) -> u32 {
        if let Some(number) = known.number() {
            return number;
        }
        let mut entries = lock(&self.entries);
        let number = *known.number.get_or_init(make);
        entries.by_number.insert(number, Arc::downgrade(known));
        number
    }

    /// The limit with that number in the file, if it is in memory.
    pub(crate) fn numbered(&self, number: u32) -> Option<Arc<Known>> {
        lock(&self.entries).by_number.get(&number)?.upgrade()
    }

    /// All limits with this prefix.
    pub(crate) fn beginning(&self, prefix: &[u8]) -> Vec<Arc<Known>> {
        let entries = lock(&self.entries);
        let begin = entries.by_prefix.iter().filter(|(name, _)| name.starts_with(prefix));
        begin.map(|(_, known)| Arc::clone(known)).collect()
    }

    /// Those of these places that have no limit in memory. `forget_number` is called for each,
    /// before any limit can be prepared there.
    pub(crate) fn unused(
        &self,
        mut prefixes: Vec<Box<[u8]>>,
        forget_number: impl Fn(&[u8]),
    ) -> Vec<Box<[u8]>> {
        let entries = lock(&self.entries);
        prefixes.retain(|prefix| !entries.by_prefix.contains_key(prefix));
        prefixes.iter().for_each(|prefix| forget_number(prefix));
        prefixes
    }

    /// Forgets limits that have neither a limiter nor a key.
    pub(crate) fn forget(&self, now: Timestamp) {
        lock(&self.entries).forget(now);
    }
}

impl Entries {
    fn forget(&mut self, now: Timestamp) {
        self.by_prefix.retain(|_, known| {
            Arc::strong_count(known) > 1 || !known.overflow.tidy(&known.latest().machine, now)
        });
        self.by_number.retain(|_, known| known.strong_count() > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    fn entry(limits: &Limits, namespace: &str, number: Option<u32>) -> Result<Arc<Known>, Error> {
        let limit = Limit::per_hour(5).build().unwrap();
        let place = Place::new(namespace, &limit);
        limits.entry(place, Rule::new(&limit, None), NOW, |_| number)
    }

    #[test]
    fn an_unused_limit_is_removed_at_the_bound_and_one_in_use_is_not() {
        let limits = Limits::new(2, Duration::ZERO);
        let held = entry(&limits, "a", None).unwrap();
        drop(entry(&limits, "b", None).unwrap());
        let third = entry(&limits, "c", None).unwrap();
        let refused = entry(&limits, "d", None).unwrap_err().to_string();
        assert!(refused.contains("2 limits") && refused.contains("max_limits"), "{refused}");
        assert!(Arc::ptr_eq(&held, &entry(&limits, "a", None).unwrap()));
        drop(third);
        assert!(entry(&limits, "d", None).is_ok());
    }

    #[test]
    fn a_limit_is_found_by_its_number_until_it_is_forgotten() {
        let limits = Limits::new(10, Duration::ZERO);
        let from_file = entry(&limits, "a", Some(7)).unwrap();
        let new = entry(&limits, "b", None).unwrap();
        assert!(limits.numbered(8).is_none());
        assert_eq!((limits.number(&new, || 8), limits.number(&from_file, || 9)), (8, 7));
        assert!(Arc::ptr_eq(&limits.numbered(7).unwrap(), &from_file));
        assert!(Arc::ptr_eq(&limits.numbered(8).unwrap(), &new));
        drop(new);
        limits.forget(NOW);
        assert!(limits.numbered(8).is_none() && limits.numbered(7).is_some());
    }
}
