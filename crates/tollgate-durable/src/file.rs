//! The file: a redb database with one table of records and one that says what it is.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    StorageBackend, StorageError, TableDefinition, TableError, TableHandle,
};
use tollgate::{Error, Form, KeyRef, Timestamp};

use crate::backend::Backend;
use crate::limits::lock;
use crate::record::Record;

/// Records, by the number of their place and their key.
const KEYS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("tollgate keys");
/// The numbers of places, by how the names of a [`Place`](tollgate::shared::Place) begin.
const PLACES: TableDefinition<'_, &[u8], u32> = TableDefinition::new("tollgate places");
/// `format`: the version of what is written here.
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("tollgate");
const FORMAT: u64 = 1;

/// Pages that are kept in memory. Keys that are in use are not read from there.
const CACHE: usize = 64 << 20;

/// Where the bytes go.
#[derive(Clone)]
pub(crate) enum Medium {
    Path(PathBuf),
    Backend(Arc<dyn Fn() -> io::Result<Backend> + Send + Sync>),
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Medium::Path(path) => path.display().fmt(f),
            Medium::Backend(_) => f.write_str("the file"),
        }
    }
}

/// A change of one record: what it is to be, or `None` to take it out.
pub(crate) type Change = (Vec<u8>, Option<Vec<u8>>);

/// An open file. After a failure it is opened anew.
pub(crate) struct File {
    medium: Medium,
    database: RwLock<Option<Database>>,
    places: Mutex<Places>,
}

/// The numbers of places.
#[derive(Default)]
struct Places {
    numbers: HashMap<Box<[u8]>, u32>,
    /// Not in the file yet.
    new: Vec<(Box<[u8]>, u32)>,
}

/// The name of a record: the number, the form and the bytes of the key.
pub(crate) fn name(number: u32, key: KeyRef<'_>) -> Vec<u8> {
    let mut name = Vec::with_capacity(5 + key.bytes().len());
    name.extend_from_slice(&number.to_be_bytes());
    name.push(key.form() as u8);
    name.extend_from_slice(key.bytes());
    name
}

/// What a name is made of.
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
        let database = open(&medium)?;
        let database = RwLock::new(Some(database));
        let file = File { medium, database, places: Mutex::default() };
        let numbers = file.with(|database| {
            let mut numbers = HashMap::new();
            for place in database.begin_read()?.open_table(PLACES)?.iter()? {
                let (prefix, number) = place?;
                numbers.insert(prefix.value().into(), number.value());
            }
            Ok(numbers)
        })?;
        lock(&file.places).numbers = numbers;
        Ok(file)
    }

    /// The number of the place whose names begin so.
    pub(crate) fn number(&self, prefix: &[u8]) -> Option<u32> {
        lock(&self.places).numbers.get(prefix).copied()
    }

    /// The same; a new one if there is none, written with the next commit.
    pub(crate) fn new_number(&self, prefix: &[u8]) -> u32 {
        let mut places = lock(&self.places);
        if let Some(number) = places.numbers.get(prefix) {
            return *number;
        }
        let number = places.numbers.values().max().map_or(0, |last| last + 1);
        places.numbers.insert(prefix.into(), number);
        places.new.push((prefix.into(), number));
        number
    }

    /// The numbers of all places that begin so.
    pub(crate) fn numbers(&self, prefix: &[u8]) -> HashSet<u32> {
        let places = lock(&self.places);
        let begin = places.numbers.iter().filter(|(place, _)| place.starts_with(prefix));
        begin.map(|(_, number)| *number).collect()
    }

    /// Does something with the database; its errors name the file.
    fn with<T>(&self, f: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, Error> {
        let database = match self.database.try_read() {
            Ok(database) => database,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // That may take long, and a caller may be on a thread that serves others.
            Err(TryLockError::WouldBlock) => {
                return Err(Error::unavailable(format!("{} is being opened anew", self.medium)));
            }
        };
        let Some(database) = &*database else {
            return Err(Error::unavailable(format!("{} is not open", self.medium)));
        };
        f(database).map_err(|error| Error::unavailable(format!("{}: {error}", self.medium)))
    }

    /// How many records there are.
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
        let record = Record::from_bytes(&bytes);
        record.map(Some).ok_or_else(|| {
            let name = name.escape_ascii();
            Error::store(format!("{}: the record of {name} is not one", self.medium), false)
        })
    }

    /// Until when the file keeps the record of this name.
    pub(crate) fn expiry(&self, name: &[u8]) -> Result<Option<Timestamp>, Error> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(KEYS)?;
            Ok(table.get(name)?.and_then(|record| Record::expiry_in(record.value())))
        })
    }

    /// Names behind `after`, with the time at which each expires.
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
                let expires = Record::expiry_in(record.value()).unwrap_or(Timestamp::EPOCH);
                names.push((name.value().to_vec(), expires));
            }
            Ok(names)
        })
    }

    /// All changes in one transaction; on disk when this returns.
    pub(crate) fn commit(&self, changes: &[Change]) -> Result<(), Error> {
        let new = lock(&self.places).new.clone();
        self.with(|database| {
            let transaction = database.begin_write()?;
            {
                for (prefix, number) in &new {
                    transaction.open_table(PLACES)?.insert(&prefix[..], number)?;
                }
                if changes.is_empty() {
                    // Something has to be written, else nothing would be asked of the disk.
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
            }
            Ok(transaction.commit()?)
        })?;
        lock(&self.places).new.drain(..new.len());
        Ok(())
    }

    /// After a failure nothing works until the file is opened anew.
    pub(crate) fn reopen(&self) -> Result<(), Error> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // It holds the lock on the file.
        *database = None;
        *database = Some(open(&self.medium)?);
        Ok(())
    }

    pub(crate) fn close(&self) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn open(medium: &Medium) -> Result<Database, Error> {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    let database = match medium {
        Medium::Path(path) => open_path(&builder, path),
        Medium::Backend(make) => {
            make().map_err(DatabaseError::from).and_then(|b| builder.create_with_backend(b))
        }
    };
    let database = database.map_err(|error| refused(medium, error))?;
    recognize(&database, medium)?;
    Ok(database)
}

fn open_path(builder: &Builder, path: &Path) -> Result<Database, DatabaseError> {
    let is_new = !path.exists();
    let database = builder.create(path)?;
    if let Some(parent) = path.parent().filter(|_| is_new) {
        // The name of the file, too, has to survive a power failure. Where directories cannot be synced there is nothing to do.
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let _ = std::fs::File::open(parent).and_then(|parent| parent.sync_all());
    }
    Ok(database)
}

/// Why a file cannot be opened.
fn refused(medium: &Medium, error: DatabaseError) -> Error {
    match error {
        DatabaseError::DatabaseAlreadyOpen => Error::unavailable(format!(
            "{medium} is in use: one store of one process owns a file, and all others wait for its end"
        )),
        DatabaseError::Storage(StorageError::Io(error)) => match error.kind() {
            io::ErrorKind::NotFound => {
                Error::store(format!("{medium}: the directory does not exist"), false)
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::store(format!("{medium} must be writable: {error}"), false)
            }
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                Error::store(format!("{medium} is not a file of tollgate, or torn: {error}"), false)
            }
            _ => Error::unavailable(format!("{medium}: {error}")),
        },
        error => {
            Error::store(format!("{medium} is torn, or not a file of tollgate: {error}"), false)
        }
    }
}

/// Whether the file is one of ours, in a form that we know; makes it one if it is empty.
fn recognize(database: &Database, medium: &Medium) -> Result<(), Error> {
    let failed = |error: redb::Error| Error::unavailable(format!("{medium}: {error}"));
    let format = format_of(database).map_err(failed)?;
    match format {
        Format::Known(FORMAT) => Ok(()),
        Format::Known(newer) => Err(Error::store(
            format!(
                "{medium} has format {newer}, and this version of tollgate knows {FORMAT}: it was written by a newer one"
            ),
            false,
        )),
        Format::Foreign(table) => Err(Error::store(
            format!("{medium} is not a file of tollgate: it has a table {table:?}"),
            false,
        )),
        Format::Empty => begin(database).map_err(failed),
    }
}

enum Format {
    Empty,
    Known(u64),
    Foreign(String),
}

fn format_of(database: &Database) -> Result<Format, redb::Error> {
    let transaction = database.begin_read()?;
    match transaction.open_table(ABOUT) {
        Ok(about) => Ok(Format::Known(about.get("format")?.map_or(0, |format| format.value()))),
        Err(TableError::TableDoesNotExist(_)) => {
            let mut tables = transaction.list_tables()?;
            let other = tables.next().map(|table| table.name().to_owned());
            Ok(other.map_or(Format::Empty, Format::Foreign))
        }
        Err(error) => Err(error.into()),
    }
}

fn begin(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        transaction.open_table(ABOUT)?.insert("format", FORMAT)?;
        transaction.open_table(KEYS)?;
        transaction.open_table(PLACES)?;
    }
    Ok(transaction.commit()?)
}

/// Any backend, to be made anew whenever the file is opened.
pub(crate) fn medium<B: StorageBackend>(
    make: impl Fn() -> io::Result<B> + Send + Sync + 'static,
) -> Medium {
    Medium::Backend(Arc::new(move || Ok(Backend(Box::new(make()?)))))
}
