//! The keys of a replay, as numbers.

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Keys and their numbers, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Keys {
    most: usize,
    hasher: RandomState,
    numbers: HashTable<u32>,
    /// All keys, one after another, and where each ends.
    text: String,
    ends: Vec<u64>,
    /// Requests whose key was not kept, because there were too many.
    beyond: u64,
}

impl Keys {
    /// Creates a table that distinguishes at most this many keys.
    pub(crate) fn new(most: usize) -> Keys {
        Keys {
            most,
            hasher: RandomState::default(),
            numbers: HashTable::new(),
            text: String::new(),
            ends: Vec::new(),
            beyond: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn beyond(&self) -> u64 {
        self.beyond
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        name(&self.text, &self.ends, number)
    }

    /// The number of a key; `None` once there are too many others.
    pub(crate) fn number(&mut self, key: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        let (text, ends) = (&self.text, &self.ends);
        if let Some(number) = self.numbers.find(hash, |number| name(text, ends, *number) == key) {
            return Some(*number);
        }
        let number = u32::try_from(ends.len()).ok().filter(|_| ends.len() < self.most);
        let Some(number) = number else {
            self.beyond += 1;
            return None;
        };
        self.text.push_str(key);
        self.ends.push(self.text.len() as u64);
        let (text, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        self.numbers
            .insert_unique(hash, number, |number| hasher.hash_one(name(text, ends, *number)));
        Some(number)
    }
}

fn name<'a>(text: &'a str, ends: &[u64], number: u32) -> &'a str {
    let index = number as usize;
    let end = |index: usize| ends.get(index).map_or(text.len(), |end| *end as usize);
    let start = if index == 0 { 0 } else { end(index - 1) };
    text.get(start..end(index)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_number() {
        let mut keys = Keys::new(3);
        assert_eq!(["a", "", "bc", "a", ""].map(|key| keys.number(key)), [0, 1, 2, 0, 1].map(Some));
        assert_eq!([0, 1, 2].map(|number| keys.name(number).to_owned()), ["a", "", "bc"]);
        assert_eq!((keys.len(), keys.beyond()), (3, 0));
        assert_eq!(["d", "a", "d"].map(|key| keys.number(key)), [None, Some(0), None]);
        assert_eq!((keys.len(), keys.beyond()), (3, 2));
    }
}
