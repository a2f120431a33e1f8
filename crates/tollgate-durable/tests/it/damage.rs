//! Damaged files cause an error that names the file, or have no effect, and never cause a panic.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use tollgate::shared::SharedStore;
use tollgate_durable::{Durable, Level};
use tollgate_testkit::block_on;
use tollgate_testservers::Directory;

pub(crate) const PAGE: usize = 4096;
pub(crate) const KEYS: usize = 300;

pub(crate) fn open(path: &Path) -> Result<Durable, tollgate::Error> {
    Durable::open(path.display().to_string())
}

/// Longer than keys that are stored as they are: the store keeps digests.
pub(crate) fn key(number: usize) -> String {
    format!("{number:0250}")
}

/// A closed file: key `n` has used `n % 5 + 1` units.
pub(crate) fn used(directory: &Directory) -> PathBuf {
    let path = directory.path().join("limits");
    let store = open(&path).unwrap();
    let limiter = store.limiter("9/365 days").unwrap();
    for number in 0..KEYS {
        let _ = block_on(limiter.charge(key(number), number as u64 % 5 + 1)).unwrap();
    }
    store.close().unwrap();
    path
}

/// Pseudo-random numbers, the same for each seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 31)) >> 16) as usize % bound
    }
}

/// Damages bytes in use: zeros are mostly free space.
pub(crate) fn damage(bytes: &mut [u8], random: &mut Random, overwrites: bool) {
    if overwrites {
        let pages: Vec<usize> = (0..bytes.len() / PAGE)
            .filter(|page| bytes[page * PAGE..][..PAGE].iter().any(|byte| *byte != 0))
            .collect();
        let page = pages[random.below(pages.len())];
        bytes[page * PAGE..][..PAGE].fill_with(|| random.below(256) as u8);
        return;
    }
    for _ in 0..=random.below(4) {
        let place = std::iter::repeat_with(|| random.below(bytes.len()));
        let place = place.into_iter().find(|place| bytes[*place] != 0).unwrap();
        bytes[place] ^= 1 << random.below(8);
    }
}

#[test]
fn a_damaged_file_is_refused_or_complete() {
    let directory = Directory::new();
    let path = used(&directory);
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for seed in 0..120 {
        let mut bytes = whole.clone();
        damage(&mut bytes, &mut Random(seed), seed % 2 == 0);
        std::fs::write(&path, &bytes).unwrap();
        match open(&path) {
            Err(error) => {
                refused += 1;
                let named = format!("{} is damaged", path.display());
                assert!(error.to_string().contains(&named), "seed {seed}: {error}");
                assert!(std::fs::read(&path).unwrap() == bytes, "seed {seed}: {error}; changed");
            }
            Ok(store) => {
                let limiter = store.limiter("9/365 days").unwrap();
                for number in 0..KEYS {
                    let usage = block_on(limiter.usage(key(number))).unwrap();
                    assert_eq!(usage, number as u64 % 5 + 1, "seed {seed}: key {number}");
                }
            }
        }
    }
    assert!(refused > 60, "only {refused} files were refused");
}

#[test]
fn damage_under_a_running_process_gives_errors() {
    let directory = Directory::new();
    let path = used(&directory);
    let whole = std::fs::read(&path).unwrap();
    let mut errors = 0;
    for seed in 0..12 {
        std::fs::write(&path, &whole).unwrap();
        let store = open(&path).unwrap();
        let limiter = store.limiter("9/365 days").unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let mut random = Random(seed);
        (0..20).for_each(|_| damage(&mut bytes, &mut random, seed % 2 == 0));
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        // The damage spares the header, which is not read again.
        file.write_all_at(&bytes[PAGE..], PAGE as u64).unwrap();
        for number in 0..KEYS {
            errors += usize::from(block_on(limiter.charge(key(number), 1)).is_err());
        }
        let _ = block_on(store.flush());
        let _ = store.close();
    }
    assert!(errors > 100, "only {errors} errors");
}

#[test]
fn a_file_of_format_1_is_converted_when_opened() {
    let directory = Directory::new();
    let path = used(&directory);
    let format = |to: Option<u64>| {
        let database = redb::Database::open(&path).unwrap();
        let write = database.begin_write().unwrap();
        let about: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("tollgate");
        let mut table = write.open_table(about).unwrap();
        let before = redb::ReadableTable::get(&table, "format").unwrap().unwrap().value();
        if let Some(to) = to {
            table.insert("format", to).unwrap();
        }
        drop(table);
        write.commit().unwrap();
        before
    };
    assert_eq!(format(Some(1)), 2);
    let store = open(&path).unwrap();
    assert_eq!(block_on(store.limiter("9/365 days").unwrap().usage(key(3))).unwrap(), 4);
    store.close().unwrap();
    assert_eq!(format(None), 2);
}

#[test]
fn a_file_that_is_deleted_or_replaced_is_noticed() {
    for level in [Level::Reserve, Level::Interval] {
        for replaced in [false, true] {
            let directory = Directory::new();
            let path = used(&directory);
            let store = Durable::builder(path.display().to_string()).level(level).open().unwrap();
            let aside = directory.path().join("aside");
            std::fs::rename(&path, &aside).unwrap();
            if replaced {
                std::fs::copy(&aside, &path).unwrap();
            }
            let error = block_on(store.check()).unwrap_err().to_string();
            let what = if replaced { "was replaced while" } else { "was deleted while" };
            assert!(error.contains(what), "{error}");
            assert!(error.contains(&path.display().to_string()), "{error}");
            assert_eq!(path.exists(), replaced, "a new file was begun");
            // The file is used again when it is back in its place.
            std::fs::rename(&aside, &path).unwrap();
            block_on(store.check()).unwrap();
        }
    }
}
