//! A part of all keys behind one lock.

use std::sync::Arc;

use hashbrown::HashTable;

use super::entry::Entry;
use super::limits::Held;

/// The keys of a shard. Entries have numbers, so that lists of entries need no keys.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    entries: Vec<Option<(u64, Entry)>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    /// Entries with untold counts.
    pub(crate) untold: Vec<u32>,
}

impl Shard {
    /// The number of a key.
    pub(crate) fn find(&self, hash: u64, held: &Arc<Held>, form: u8, key: &[u8]) -> Option<u32> {
        let is_it = |number: &u32| {
            self.entries[*number as usize].as_ref().is_some_and(|(other, entry)| {
                *other == hash
                    && Arc::ptr_eq(&entry.held, held)
                    && entry.key.split_first().is_some_and(|(f, rest)| *f == form && rest == key)
            })
        };
        self.index.find(hash, is_it).copied()
    }

    /// The entry of that number.
    pub(crate) fn entry(&mut self, number: u32) -> &mut Entry {
        let Some((_, entry)) = &mut self.entries[number as usize] else {
            unreachable!("numbers are of entries that are there")
        };
        entry
    }

    pub(crate) fn insert(&mut self, hash: u64, entry: Entry) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        self.entries[number as usize] = Some((hash, entry));
        let entries = &self.entries;
        let hash_of =
            |number: &u32| entries[*number as usize].as_ref().map_or(0, |(hash, _)| *hash);
        self.index.insert_unique(hash, number, hash_of);
        number
    }

    /// Removes entries that are over, and returns how many.
    pub(crate) fn remove_if(&mut self, mut over: impl FnMut(&mut Entry) -> bool) -> usize {
        let mut removed = 0;
        for (number, place) in (0u32..).zip(&mut self.entries) {
            let Some((hash, entry)) = place else { continue };
            if !over(entry) {
                continue;
            }
            if let Ok(found) = self.index.find_entry(*hash, |other| *other == number) {
                found.remove();
            }
            *place = None;
            self.free.push(number);
            removed += 1;
        }
        removed
    }

    /// The entry with this number, if it was not removed.
    pub(crate) fn entry_if_there(&mut self, number: u32) -> Option<&mut Entry> {
        self.entries.get_mut(number as usize)?.as_mut().map(|(_, entry)| entry)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten().map(|(_, entry)| entry)
    }

    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.index.iter().copied().collect()
    }
}
