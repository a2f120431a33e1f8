//! Checks a file that no store uses, and saves what is readable of a damaged one.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata};
use tollgate::{Clock, Error, SystemClock, Timestamp};

use crate::file::{KEYS, PLACES, parts};
use crate::opening::{self, Loaded, Medium, OpenError, caught};
use crate::pages::{self, Pages};
use crate::record::Record;

/// The number of records in one transaction.
const RECORDS_IN_TRANSACTION: usize = 100_000;

/// The result of [`check_file`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileReport {
    /// The length of the file.
    pub bytes: u64,
    /// The version of the format; `None` if it is not readable.
    pub format: Option<u64>,
    /// Whether the last store that used the file closed it. Otherwise the next start recovers the
    /// last commit, and what was reserved for keys counts as used.
    pub closed: bool,
    /// The limits that ever had a key in the file, by namespace and identity.
    pub limits: Vec<LimitReport>,
    /// The number of readable records, one for each key of each limit.
    pub keys: u64,
    /// The number of expired records. The store that uses the file removes them once a minute.
    pub expired: u64,
    /// The damage, one sentence each. A store opens the file only if this is empty.
    pub damage: Vec<String>,
}

impl FileReport {
    /// True if no damage was found: [`Durable::open`](crate::Durable::open) accepts the file.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.damage.is_empty()
    }
}

/// One limit in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitReport {
    /// The namespace of the limit.
    pub namespace: String,
    /// [`Limit::identity`](tollgate::Limit::identity) of the limit.
    pub identity: String,
    /// The number of its records.
    pub keys: u64,
}

/// The result of [`repair_file`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// The damage of the old file. Empty if it is intact: then the new file is a full copy.
    pub damage: Vec<String>,
    /// The number of limits that have keys in the new file.
    pub limits: u64,
    /// The number of records in the new file.
    pub keys: u64,
    /// Expired records, which were left out.
    pub expired: u64,
    /// Readable records whose limit is no longer known.
    pub without_limit: u64,
    /// How many records the old file had, if that is still readable.
    pub expected: Option<u64>,
}

impl RepairReport {
    /// The least number of lost records; `None` if it is unknown how many there were. A record may
    /// also have been saved from an older copy on a freed page: see [`repair_file`].
    #[must_use]
    pub fn lost(&self) -> Option<u64> {
        Some(self.expected?.saturating_sub(self.keys + self.expired))
    }
}

/// Checks all pages and records of a file of a [`Durable`](crate::Durable) store without changing
/// it. Blocks until everything is read.
///
/// Damage is not an error but a line of the report.
///
/// # Errors
/// When the file cannot be checked: it does not exist, is in use by a store, not accessible, of a
/// newer version of tollgate, or of another program.
///
/// ```
/// # use tollgate_durable::{Durable, check_file};
/// # let directory = tollgate_testservers::Directory::new();
/// # let path = directory.path().join("limits");
/// let store = Durable::open(path.display().to_string())?;
/// # tollgate_testkit::block_on(async {
/// store.limiter("1/hour")?.hit("user:42").await?;
/// # Ok::<(), tollgate::Error>(())
/// # })?;
/// assert!(check_file(&path).unwrap_err().to_string().contains("is in use"));
/// store.close()?;
///
/// let report = check_file(&path)?;
/// assert!(report.is_intact() && report.closed);
/// assert_eq!((report.keys, report.limits.len()), (1, 1));
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn check_file(path: impl AsRef<Path>) -> Result<FileReport, Error> {
    check_at(path.as_ref(), SystemClock::new().now())
}

fn check_at(path: &Path, now: Timestamp) -> Result<FileReport, Error> {
    let opened = Opened::new(path)?;
    let mut report = FileReport {
        bytes: opened.bytes,
        format: opened.format,
        closed: opened.closed,
        damage: opened.damage,
        ..FileReport::default()
    };
    let limits = opened.content.limits()?;
    let mut keys_of = HashMap::new();
    let (mut unreadable, mut without_limit) = (0_u64, 0_u64);
    opened.content.each(|name, bytes| {
        let Some(expires) = expiry(name, bytes) else {
            unreadable += 1;
            return;
        };
        report.keys += 1;
        report.expired += u64::from(expires <= now);
        match parts(name).filter(|(number, _)| limits.contains_key(number)) {
            Some((number, _)) => *keys_of.entry(number).or_insert(0) += 1,
            None => without_limit += 1,
        }
    })?;
    if unreadable > 0 {
        report.damage.push(format!("{unreadable} records do not match their checksums"));
    }
    if without_limit > 0 {
        report.damage.push(format!("{without_limit} records belong to limits that are lost"));
    }
    for (number, prefix) in limits {
        let Some((namespace, identity)) = pages::names_of(&prefix) else { continue };
        let keys = keys_of.get(&number).copied().unwrap_or(0);
        let (namespace, identity) = (namespace.to_owned(), identity.to_owned());
        report.limits.push(LimitReport { namespace, identity, keys });
    }
    report.limits.sort_by(|a, b| (&a.namespace, &a.identity).cmp(&(&b.namespace, &b.identity)));
    Ok(report)
}

/// Copies every readable record of a file into a new one, which must not exist yet. The old file
/// stays as it is. Blocks until everything is read and written.
///
/// An intact file is copied as it is. In a damaged file all pages are searched, used and freed
/// ones, because the tree that leads to them may be broken. Each record has a checksum, so no copy
/// holds a wrong count. But a copy can be too old: if the last record of a key is damaged, an
/// earlier one may be found, and a key that was reset may be back. So a key may get back what it
/// used since its earlier record, and a lost key is fresh.
///
/// Records of format 1 that were never written again have no checksum. They are copied only from an
/// intact file.
///
/// # Errors
/// Fails like [`check_file`], and when `new` exists or cannot be written. An incomplete new file is
/// removed.
///
/// ```
/// # use tollgate_durable::{Durable, repair_file};
/// # let directory = tollgate_testservers::Directory::new();
/// # let (old, new) = (directory.path().join("limits"), directory.path().join("repaired"));
/// # tollgate_testkit::block_on(async {
/// let store = Durable::open(old.display().to_string())?;
/// assert!(store.limiter("1/hour")?.hit("user:42").await?.allowed());
/// store.close()?;
///
/// let report = repair_file(&old, &new)?;
/// assert_eq!((report.keys, report.lost()), (1, Some(0)));
/// let store = Durable::open(new.display().to_string())?;
/// assert!(!store.limiter("1/hour")?.hit("user:42").await?.allowed());
/// # Ok::<(), tollgate::Error>(())
/// # }).unwrap();
/// ```
pub fn repair_file(old: impl AsRef<Path>, new: impl AsRef<Path>) -> Result<RepairReport, Error> {
    repair_at(old.as_ref(), new.as_ref(), SystemClock::new().now())
}

fn repair_at(old: &Path, new: &Path, now: Timestamp) -> Result<RepairReport, Error> {
    if new.exists() {
        return Err(Error::request(format!("{}: it exists already", new.display())));
    }
    let opened = Opened::new(old)?;
    let result = copy(opened, new, now);
    if result.is_err() {
        let _ = fs::remove_file(new);
    }
    result
}

fn copy(opened: Opened, new: &Path, now: Timestamp) -> Result<RepairReport, Error> {
    let medium = Medium::Path(new.into());
    let mut report = RepairReport {
        damage: opened.damage,
        expected: opened.expected,
        ..RepairReport::default()
    };
    let limits = opened.content.limits()?;
    let mut writer =
        CopyWriter { database: opening::open(&medium)?.database, medium, batch: Vec::new() };
    writer.write_limits(&limits)?;
    let mut with_keys = HashMap::new();
    let mut failure = Ok(());
    opened.content.each(|name, bytes| match expiry(name, bytes) {
        None => {}
        Some(expires) if expires <= now => report.expired += 1,
        Some(_) => match parts(name).filter(|(number, _)| limits.contains_key(number)) {
            None => report.without_limit += 1,
            Some((number, _)) if failure.is_ok() => {
                report.keys += 1;
                with_keys.insert(number, ());
                failure = writer.add(name, bytes);
            }
            Some(_) => {}
        },
    })?;
    failure?;
    writer.finish()?;
    report.limits = with_keys.len() as u64;
    Ok(report)
}

/// When a record expires; `None` if it is damaged.
fn expiry(name: &[u8], bytes: &[u8]) -> Option<Timestamp> {
    let _ = Record::from_bytes(name, bytes)?;
    Record::expiry_in(name, bytes)
}

/// A file whose pages were compared with their checksums.
struct Opened {
    bytes: u64,
    format: Option<u64>,
    closed: bool,
    expected: Option<u64>,
    damage: Vec<String>,
    content: Content,
}

/// The source of the records.
enum Content {
    Intact(Medium, Database),
    /// All pages of a damaged file.
    Damaged(Pages),
}

impl Opened {
    fn new(path: &Path) -> Result<Opened, Error> {
        let medium = Medium::Path(path.into());
        let unreadable = |error| Error::unavailable(format!("{medium}: {error}"));
        let metadata = fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(Error::request(format!("{medium}: it is not a file")));
        }
        let loaded =
            opening::existing(&medium, path).and_then(|backend| opening::load(&medium, &backend));
        let (bytes, mut format, mut expected, mut closed) = (metadata.len(), None, None, false);
        let damage = match loaded {
            Err(OpenError::Refused(error)) => return Err(error),
            Err(OpenError::Damaged(what)) => what,
            Ok(Loaded { mut database, recovered }) => {
                closed = !recovered;
                expected = caught(|| count(&database)).ok().flatten();
                let checked = caught(|| match recovered {
                    true => Ok(()),
                    false => opening::check(&mut database, &medium),
                });
                format = caught(|| opening::format_in(&database)).ok().flatten();
                match checked.unwrap_or_else(|panic| Err(OpenError::Damaged(panic))) {
                    Err(OpenError::Refused(error)) => return Err(error),
                    Err(OpenError::Damaged(what)) => {
                        opening::close(database);
                        what
                    }
                    Ok(()) => match opening::known_format(&database, &medium) {
                        Err(OpenError::Refused(error)) => return Err(error),
                        Err(OpenError::Damaged(what)) => what,
                        Ok(None) => "it has no tables of tollgate".to_owned(),
                        Ok(Some(_)) => {
                            let (damage, content) = (Vec::new(), Content::Intact(medium, database));
                            return Ok(Opened { bytes, format, closed, expected, damage, content });
                        }
                    },
                }
            }
        };
        let content = Content::Damaged(pages::read(path).map_err(unreadable)?);
        Ok(Opened { bytes, format, closed, expected, damage: vec![damage], content })
    }
}

fn count(database: &Database) -> Option<u64> {
    database.begin_read().ok()?.open_table(KEYS).ok()?.len().ok()
}

impl Content {
    /// The prefixes of counters by their numbers.
    fn limits(&self) -> Result<HashMap<u32, Vec<u8>>, Error> {
        match self {
            Content::Damaged(pages) => Ok(pages.limits.clone()),
            Content::Intact(medium, database) => attempt(medium, || {
                let mut limits = HashMap::new();
                for place in database.begin_read()?.open_table(PLACES)?.iter()? {
                    let (prefix, number) = place?;
                    limits.insert(number.value(), prefix.value().to_vec());
                }
                Ok(limits)
            }),
        }
    }

    /// Calls `f` with the name and the bytes of each record.
    fn each(&self, mut f: impl FnMut(&[u8], &[u8])) -> Result<(), Error> {
        match self {
            Content::Damaged(pages) => {
                pages.records.iter().for_each(|(name, bytes)| f(name, bytes));
                Ok(())
            }
            Content::Intact(medium, database) => attempt(medium, || {
                for record in database.begin_read()?.open_table(KEYS)?.iter()? {
                    let (name, bytes) = record?;
                    f(name.value(), bytes.value());
                }
                Ok(())
            }),
        }
    }
}

/// Runs code of the database; its errors name the file.
fn attempt<T>(medium: &Medium, f: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, Error> {
    match caught(f) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Error::unavailable(format!("{medium}: {error}"))),
        Err(panic) => Err(opening::damaged(medium, panic)),
    }
}

/// Writes records into a new file.
struct CopyWriter {
    medium: Medium,
    database: Database,
    batch: Vec<(Vec<u8>, Vec<u8>)>,
}

impl CopyWriter {
    fn write_limits(&self, limits: &HashMap<u32, Vec<u8>>) -> Result<(), Error> {
        attempt(&self.medium, || {
            let transaction = self.database.begin_write()?;
            {
                let mut table = transaction.open_table(PLACES)?;
                for (number, prefix) in limits {
                    table.insert(&prefix[..], number)?;
                }
            }
            Ok(transaction.commit()?)
        })
    }

    fn add(&mut self, name: &[u8], bytes: &[u8]) -> Result<(), Error> {
        self.batch.push((name.to_vec(), bytes.to_vec()));
        if self.batch.len() < RECORDS_IN_TRANSACTION { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<(), Error> {
        let mut batch = std::mem::take(&mut self.batch);
        batch.sort_unstable();
        attempt(&self.medium, || {
            let transaction = self.database.begin_write()?;
            {
                let mut table = transaction.open_table(KEYS)?;
                for (name, bytes) in &batch {
                    table.insert(&name[..], &bytes[..])?;
                }
            }
            Ok(transaction.commit()?)
        })
    }

    fn finish(mut self) -> Result<(), Error> {
        self.write()?;
        opening::close(self.database);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_testkit::block_on;
    use tollgate_testservers::Directory;

    use super::*;
    use crate::Durable;

    #[test]
    fn expired_records_are_counted_and_not_copied() {
        let directory = Directory::new();
        let path = directory.path().join("limits");
        let store = Durable::open(path.display().to_string()).unwrap();
        for limit in ["5/hour fixed-window-per-key", "5/365 days"] {
            let _ = block_on(store.limiter(limit).unwrap().hit("user:42")).unwrap();
        }
        block_on(store.flush()).unwrap();
        let copy = directory.path().join("copy");
        fs::copy(&path, &copy).unwrap();
        store.close().unwrap();

        let now = SystemClock::new().now();
        assert!(!check_at(&copy, now).unwrap().closed, "nobody closed what was copied");
        assert_eq!(check_at(&path, now).unwrap().expired, 0);
        let tomorrow = now + Duration::from_secs(24 * 60 * 60);
        let report = check_at(&path, tomorrow).unwrap();
        assert_eq!((report.keys, report.expired), (2, 1));
        let report = repair_at(&path, &directory.path().join("new"), tomorrow).unwrap();
        assert_eq!((report.keys, report.expired, report.lost()), (1, 1, Some(0)));
    }
}
