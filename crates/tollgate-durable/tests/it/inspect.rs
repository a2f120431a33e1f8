//! Checks files, and copies the readable records of damaged ones.

use std::path::Path;

use tollgate::ErrorKind;
use tollgate_durable::{check_file, repair_file};
use tollgate_testkit::block_on;
use tollgate_testservers::Directory;

use crate::damage::{KEYS, PAGE, Random, damage, key, open, used};

/// The units that key `number` has used.
fn units(number: usize) -> u64 {
    number as u64 % 5 + 1
}

/// The usage of each key in this file.
fn usages(path: &Path) -> Vec<u64> {
    let store = open(path).unwrap();
    let limiter = store.limiter("9/365 days").unwrap();
    let usages = (0..KEYS).map(|number| block_on(limiter.usage(key(number))).unwrap()).collect();
    store.close().unwrap();
    usages
}

/// The new file opens, and no key has more room than before. Returns how many keys were lost.
fn is_usable(new: &Path, context: &str) -> usize {
    assert!(check_file(new).unwrap().is_intact(), "{context}");
    let mut lost = 0;
    for (number, usage) in usages(new).into_iter().enumerate() {
        // The count is one higher where an earlier record with a reserve was found.
        let saved = units(number)..=units(number) + 1;
        assert!(usage == 0 || saved.contains(&usage), "{context}: key {number} has used {usage}");
        lost += usize::from(usage == 0);
    }
    lost
}

#[test]
fn intact_file_is_described_and_copied_whole() {
    let directory = Directory::new();
    let path = used(&directory);
    let before = std::fs::read(&path).unwrap();
    let report = check_file(&path).unwrap();
    assert!(report.is_intact() && report.closed, "{report:?}");
    assert_eq!((report.format, report.bytes), (Some(2), before.len() as u64));
    assert_eq!((report.keys, report.expired), (KEYS as u64, 0));
    let [limit] = &report.limits[..] else { panic!("{report:?}") };
    assert_eq!((limit.namespace.as_str(), limit.keys), ("", KEYS as u64));
    assert!(limit.identity.starts_with("gcra:"), "{limit:?}");

    let new = directory.path().join("new");
    let report = repair_file(&path, &new).unwrap();
    assert_eq!((report.keys, report.limits, report.lost()), (KEYS as u64, 1, Some(0)));
    assert!(report.damage.is_empty() && report.without_limit == 0, "{report:?}");
    assert_eq!(usages(&new), (0..KEYS).map(units).collect::<Vec<_>>());
    assert!(std::fs::read(&path).unwrap() == before, "the old file was changed");
    let error = repair_file(&path, &new).unwrap_err().to_string();
    assert!(error.contains("exists already"), "{error}");
}

#[test]
fn remaining_records_of_a_truncated_file_are_saved() {
    let directory = Directory::new();
    let path = used(&directory);
    let whole = std::fs::read(&path).unwrap();
    for length in [1, PAGE, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let report = check_file(&path).unwrap();
        assert!(report.damage[0].starts_with("torn, or not a file of tollgate"), "{report:?}");
        assert!(report.keys <= KEYS as u64 && report.format.is_none(), "{report:?}");
        let new = directory.path().join(format!("new {length}"));
        let saved = repair_file(&path, &new).unwrap();
        assert_eq!(saved.keys + saved.without_limit, report.keys, "{length}: {saved:?}");
        assert_eq!(saved.lost(), None);
        let lost = is_usable(&new, &format!("{length} bytes"));
        assert_eq!(saved.keys, (KEYS - lost) as u64);
    }
}

#[test]
fn flipped_bits_and_overwritten_pages_cost_few_records() {
    let directory = Directory::new();
    let path = used(&directory);
    let whole = std::fs::read(&path).unwrap();
    let (mut damaged, mut lost) = (0, 0);
    for seed in 0..60 {
        let mut bytes = whole.clone();
        damage(&mut bytes, &mut Random(seed), seed % 2 == 0);
        std::fs::write(&path, &bytes).unwrap();
        let opens = open(&path).map(|store| store.close().unwrap()).is_ok();
        std::fs::write(&path, &bytes).unwrap();
        let report = check_file(&path).unwrap();
        assert_eq!(report.is_intact(), opens, "seed {seed}: {report:?}");
        damaged += usize::from(!opens);
        let new = directory.path().join(format!("new {seed}"));
        let saved = repair_file(&path, &new).unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes, "seed {seed}: the old file was changed");
        assert_eq!(saved.damage.is_empty(), opens, "seed {seed}: {saved:?}");
        // Where the page of the only limit is lost, the limit of the records is unknown.
        if saved.without_limit == 0 {
            let fresh = is_usable(&new, &format!("seed {seed}"));
            assert_eq!(saved.keys, (KEYS - fresh) as u64, "seed {seed}: {saved:?}");
            lost += fresh;
        }
    }
    assert!(damaged > 30, "only {damaged} of 60 files were damaged");
    assert!(lost < damaged * KEYS / 10, "{lost} records of {damaged} damaged files are lost");
}

#[test]
fn records_are_found_without_the_tree() {
    let directory = Directory::new();
    let path = used(&directory);
    let mut bytes = std::fs::read(&path).unwrap();
    // The header and all branch pages.
    bytes[..PAGE].fill(0xff);
    for page in bytes.chunks_mut(PAGE).filter(|page| page[0] == 2) {
        page.fill(0);
    }
    std::fs::write(&path, &bytes).unwrap();
    let new = directory.path().join("new");
    let report = repair_file(&path, &new).unwrap();
    assert_eq!((report.keys, report.lost()), (KEYS as u64, None), "{report:?}");
    assert_eq!(is_usable(&new, "without the tree"), 0);
}

#[test]
fn empty_file_is_damaged() {
    let directory = Directory::new();
    let path = directory.path().join("limits");
    std::fs::write(&path, b"").unwrap();
    let report = check_file(&path).unwrap();
    assert!(report.damage[0].starts_with("it is empty"), "{report:?}");
    assert_eq!((report.bytes, report.keys, report.format), (0, 0, None));
    let report = repair_file(&path, directory.path().join("new")).unwrap();
    assert_eq!((report.keys, report.lost()), (0, None));
}

#[test]
fn file_that_cannot_be_checked_is_an_error() {
    let directory = Directory::new();
    let path = used(&directory);
    let said = |path: &Path| {
        let error = check_file(path).unwrap_err();
        let new = directory.path().join("never");
        let repair = repair_file(path, &new).unwrap_err();
        assert_eq!(repair.to_string(), error.to_string());
        assert!(!new.exists(), "{error}: a new file was begun");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        error
    };
    let store = open(&path).unwrap();
    let in_use = said(&path);
    assert!(in_use.to_string().contains("is in use"), "{in_use}");
    assert_eq!(in_use.kind(), ErrorKind::Unavailable);
    store.close().unwrap();

    let about: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("tollgate");
    let database = redb::Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(about).unwrap().insert("format", 3).unwrap();
    write.commit().unwrap();
    drop(database);
    let newer = said(&path);
    assert!(newer.to_string().contains("has format 3, and this version"), "{newer}");

    let other = directory.path().join("other");
    let database = redb::Database::create(&other).unwrap();
    let write = database.begin_write().unwrap();
    let table: redb::TableDefinition<'_, u64, u64> = redb::TableDefinition::new("accounts");
    write.open_table(table).unwrap().insert(1, 2).unwrap();
    write.commit().unwrap();
    drop(database);
    let foreign = said(&other);
    assert!(foreign.to_string().contains("is not a file of tollgate"), "{foreign}");

    let missing = said(&directory.path().join("missing"));
    assert!(missing.to_string().contains("No such file"), "{missing}");
    let not_a_file = said(directory.path());
    assert!(not_a_file.to_string().contains("it is not a file"), "{not_a_file}");
}
