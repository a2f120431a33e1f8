//! The file: a redb database with a table of records, a table of places, and a table that
//! identifies it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Bound;
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, TryLockError};

use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
    WriteTransaction,
};
use tollgate::key::Form;
use tollgate::keyed::lock;
use tollgate::{Error, KeyRef, Timestamp};

use crate::opening::{self, Identity, Medium, Opened, caught, damaged, open};
use crate::record::Record;
use crate::spare;

/// Records, by the number of their place and their key.
pub(crate) const KEYS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("tollgate keys");
/// The numbers of places, by the prefix of the names of a [`Place`](tollgate::shared::Place).
pub(crate) const PLACES: TableDefinition<'_, &[u8], u32> = TableDefinition::new("tollgate places");
/// `format`: the version of the file format.
pub(crate) const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("tollgate");
/// A change of one record: its new value, or `None` to delete it.
pub(crate) type Change = (Vec<u8>, Option<Vec<u8>>);

/// An open file. After a failure it is reopened.
pub(crate) struct File {
    medium: Medium,
    identity: Option<Identity>,
    opened: RwLock<Option<Opened>>,
    /// Set when damage is found. Nothing is read or written from then on.
    damage: OnceLock<Error>,
    places: Mutex<Places>,
}

/// Why a transaction is not on disk.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// The disk is full. Changes that need no more space can still be written.
    NoRoom(Error),
    /// The file has to be reopened.
    Disk(Error),
}

/// The bytes that identify a place.
type Prefix = Box<[u8]>;

/// The numbers of places.
#[derive(Default)]
struct Places {
    numbers: HashMap<Prefix, u32>,
    /// The number of the next new place. No number is used twice as long as the file is open.
    next: u32,
    /// Places that are not in the file yet.
    new: Vec<(Prefix, u32)>,
}

/// The name of a record: the number, the form and the bytes of the key.
pub(crate) fn name(number: u32, key: KeyRef<'_>) -> Vec<u8> {
    let mut name = Vec::with_capacity(5 + key.bytes().len());
    name.extend_from_slice(&number.to_be_bytes());
    name.push(key.form() as u8);
    name.extend_from_slice(key.bytes());
    name
}

/// The parts of a name.
pub(crate) fn parts(name: &[u8]) -> Option<(u32, KeyRef<'_>)> {
    let (number, key) = name.split_first_chunk()?;
    let (form, bytes) = key.split_first()?;
    let key = KeyRef::from_parts(Form::from_byte(*form)?, bytes);
    Some((u32::from_be_bytes(*number), key))
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({})", self.medium)
    }
}

impl File {
    pub(crate) fn open(medium: Medium) -> Result<File, Error> {
        let opened = open(&medium)?;
        let identity = Identity::of(&medium)
            .map_err(|error| Error::unavailable(format!("{medium}: {error}")))?;
        let is_spare_there = spare::is_laid_in(&opened.database);
        let opened = RwLock::new(Some(opened));
        let file =
            File { medium, identity, opened, damage: OnceLock::new(), places: Mutex::default() };
        let numbers: HashMap<_, _> = file.with(|database| {
            let mut numbers = HashMap::new();
            for place in database.begin_read()?.open_table(PLACES)?.iter()? {
                let (prefix, number) = place?;
                numbers.insert(prefix.value().into(), number.value());
            }
            Ok(numbers)
        })?;
        let next = numbers.values().max().map_or(0, |last| last + 1);
        *lock(&file.places) = Places { numbers, next, new: Vec::new() };
        // On a full disk the store works without the spare pages.
        if !is_spare_there && let Err(CommitError::Disk(error)) = file.lay_in_spare() {
            return Err(error);
        }
        Ok(file)
    }

    /// The number of the place with this prefix.
    pub(crate) fn number(&self, prefix: &[u8]) -> Option<u32> {
        lock(&self.places).numbers.get(prefix).copied()
    }

    /// The number of the place with this prefix. A new number is written with the next commit.
    pub(crate) fn new_number(&self, prefix: &[u8]) -> u32 {
        let mut places = lock(&self.places);
        if let Some(number) = places.numbers.get(prefix) {
            return *number;
        }
        let number = places.next;
        places.next += 1;
        places.numbers.insert(prefix.into(), number);
        places.new.push((prefix.into(), number));
        number
    }

    /// The numbers of all places with this prefix.
    pub(crate) fn numbers(&self, prefix: &[u8]) -> HashSet<u32> {
        let places = lock(&self.places);
        let begin = places.numbers.iter().filter(|(place, _)| place.starts_with(prefix));
        begin.map(|(_, number)| *number).collect()
    }

    /// Returns some of the places after `after` that have no record, and the last place that was
    /// examined; `None` if there are no further places.
    pub(crate) fn places_without_records(
        &self,
        after: &[u8],
        most: usize,
    ) -> Result<(Vec<Prefix>, Option<Prefix>), Error> {
        self.with(|database| {
            let transaction = database.begin_read()?;
            let (places, records) =
                (transaction.open_table(PLACES)?, transaction.open_table(KEYS)?);
            let (mut empty, mut last) = (Vec::new(), None);
            let behind = places.range::<&[u8]>((Bound::Excluded(after), Bound::Unbounded))?;
            for place in behind.take(most) {
                let (prefix, number) = place?;
                let prefix: Prefix = prefix.value().into();
                let begin = number.value().to_be_bytes();
                let first = records.range::<&[u8]>(&begin[..]..)?.next().transpose()?;
                if !first.is_some_and(|(name, _)| name.value().starts_with(&begin)) {
                    empty.push(prefix.clone());
                }
                last = Some(prefix);
            }
            Ok((empty, last))
        })
    }

    /// Forgets the number of a place, so that it gets a new one when it has a record again.
    pub(crate) fn forget_number(&self, prefix: &[u8]) {
        let mut places = lock(&self.places);
        places.numbers.remove(prefix);
        places.new.retain(|(new, _)| **new != *prefix);
    }

    /// Deletes places that have no records.
    pub(crate) fn delete_places(&self, prefixes: &[Prefix]) -> Result<(), CommitError> {
        self.transact(|transaction| {
            let mut places = transaction.open_table(PLACES)?;
            for prefix in prefixes {
                places.remove(&prefix[..])?;
            }
            Ok(())
        })
    }

    /// Runs code on the database; its errors name the file.
    fn with<T>(&self, f: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, Error> {
        self.with_opened(|opened| f(&opened.database))
    }

    fn with_opened<T>(
        &self,
        f: impl FnOnce(&Opened) -> Result<T, redb::Error>,
    ) -> Result<T, Error> {
        self.is_whole()?;
        let opened = match self.opened.try_read() {
            Ok(opened) => opened,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Reopening may take long, and the caller may be on a thread that serves others.
            Err(TryLockError::WouldBlock) => {
                return Err(Error::unavailable(format!("{} is being reopened", self.medium)));
            }
        };
        let Some(opened) = &*opened else {
            return Err(Error::unavailable(format!("{} is not open", self.medium)));
        };
        // A page that is damaged after the check makes redb panic, in the caller's task.
        match caught(|| f(opened)) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(redb::Error::Corrupted(what))) | Err(what) => {
                Err(self.damage.get_or_init(|| damaged(&self.medium, what)).clone())
            }
            Ok(Err(error)) => Err(Error::unavailable(format!("{}: {error}", self.medium))),
        }
    }

    fn is_whole(&self) -> Result<(), Error> {
        self.damage.get().map_or(Ok(()), |damage| Err(damage.clone()))
    }

    /// An error if the file was deleted or replaced, because later writes would be lost.
    pub(crate) fn is_in_place(&self) -> Result<(), Error> {
        let now = Identity::of(&self.medium);
        let what = match now {
            Ok(identity) if identity == self.identity => return Ok(()),
            Ok(_) => "replaced".to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "deleted".to_owned(),
            Err(error) => return Err(Error::unavailable(format!("{}: {error}", self.medium))),
        };
        Err(Error::unavailable(format!(
            "{} was {what} while it was in use: put it back, or restart to continue without it",
            self.medium
        )))
    }

    /// The number of records.
    pub(crate) fn len(&self) -> Result<u64, Error> {
        self.with(|database| Ok(database.begin_read()?.open_table(KEYS)?.len()?))
    }

    /// The record of this name.
    pub(crate) fn read(&self, name: &[u8]) -> Result<Option<Record>, Error> {
        let bytes = self.with(|database| {
            let table = database.begin_read()?.open_table(KEYS)?;
            Ok(table.get(name)?.map(|record| record.value().to_vec()))
        })?;
        let Some(bytes) = bytes else { return Ok(None) };
        let record = Record::from_bytes(name, &bytes);
        record.map(Some).ok_or_else(|| {
            damaged(&self.medium, format_args!("the record of {}", name.escape_ascii()))
        })
    }

    /// When the record of this name expires.
    pub(crate) fn expiry(&self, name: &[u8]) -> Result<Option<Timestamp>, Error> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(KEYS)?;
            Ok(table.get(name)?.and_then(|record| Record::expiry_in(name, record.value())))
        })
    }

    /// Names after `after`, with the time at which each expires.
    pub(crate) fn names(
        &self,
        after: &[u8],
        most: usize,
    ) -> Result<Vec<(Vec<u8>, Timestamp)>, Error> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(KEYS)?;
            let mut names = Vec::new();
            for record in
                table.range::<&[u8]>((Bound::Excluded(after), Bound::Unbounded))?.take(most)
            {
                let (name, record) = record?;
                // A damaged record stays, so that its key gets errors instead of being forgotten.
                let expires = Record::expiry_in(name.value(), record.value());
                let expires = expires.unwrap_or(Timestamp::MAX);
                names.push((name.value().to_vec(), expires));
            }
            Ok(names)
        })
    }

    /// Commits all changes in one transaction. They are on disk when this returns.
    pub(crate) fn commit<'c>(
        &self,
        changes: impl ExactSizeIterator<Item = &'c Change>,
    ) -> Result<(), CommitError> {
        let new = lock(&self.places).new.clone();
        self.transact(|transaction| {
            for (prefix, number) in &new {
                transaction.open_table(PLACES)?.insert(&prefix[..], number)?;
            }
            if changes.len() == 0 {
                // Without a write, redb would not use the disk.
                let mut about = transaction.open_table(ABOUT)?;
                let checks = about.get("checks")?.map_or(0, |checks| checks.value());
                about.insert("checks", checks.wrapping_add(1))?;
            }
            let mut table = transaction.open_table(KEYS)?;
            for (name, record) in changes {
                match record {
                    Some(record) => drop(table.insert(&name[..], &record[..])?),
                    None => drop(table.remove(&name[..])?),
                }
            }
            Ok(())
        })?;
        lock(&self.places).new.drain(..new.len());
        Ok(())
    }

    /// Reserves pages for a full disk: see [`spare`].
    pub(crate) fn lay_in_spare(&self) -> Result<(), CommitError> {
        self.transact(spare::lay_in)
    }

    pub(crate) fn release_spare(&self) -> Result<(), CommitError> {
        self.transact(spare::release)
    }

    /// Does `work` in one transaction. It is on disk when this returns.
    fn transact(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), CommitError> {
        self.is_in_place().map_err(CommitError::Disk)?;
        let mut no_room = None;
        let result = self.with_opened(|Opened { database, backend }| {
            let transact = || -> Result<(), redb::Error> {
                let transaction = database.begin_write()?;
                let (worked, refused) = backend.put_together(|| work(&transaction));
                match (worked, refused) {
                    (Ok(()), None) => Ok(transaction.commit()?),
                    (worked, refused) => {
                        no_room = refused;
                        worked.and(Ok(transaction.abort()?))
                    }
                }
            };
            let result = transact();
            // The commit itself needs pages too.
            no_room = backend.no_room().or(no_room.take());
            result
        });
        let failed = result.is_err();
        match (result, no_room) {
            (Ok(()), None) => Ok(()),
            (Err(error), None) => Err(CommitError::Disk(error)),
            (_, Some(error)) => {
                if failed {
                    self.reopen().map_err(CommitError::Disk)?;
                }
                let what = format!("{} has no room for new keys: {error}", self.medium);
                Err(CommitError::NoRoom(Error::store(what, true)))
            }
        }
    }

    /// Reopens the file. After a failure of the disk, redb refuses everything until then.
    pub(crate) fn reopen(&self) -> Result<(), Error> {
        self.is_in_place()?;
        self.is_whole()?;
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        // The old handle holds the lock on the file.
        opened.take().into_iter().for_each(|opened| opening::close(opened.database));
        *opened = Some(open(&self.medium)?);
        Ok(())
    }

    pub(crate) fn close(&self) {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        opened.take().into_iter().for_each(|opened| opening::close(opened.database));
    }
}
