//! Opens a file after checking all of it. Rejects a file that is damaged or of another program.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, StorageBackend, StorageError, TableError,
    TableHandle,
};
use tollgate::Error;

use crate::backend::Backend;
use crate::file::{ABOUT, KEYS, PLACES};

/// Records of format 2 have a checksum. A file of format 1 opens, and its records get theirs when
/// they are next written.
const FORMAT: u64 = 2;
const OLDEST_FORMAT: u64 = 1;

/// The cache for pages. Keys in use are not read from there.
const CACHE: usize = 64 << 20;

/// redb reports this progress if it goes back to the commit before the last one.
const ROLLED_BACK: f64 = 0.3;

/// The medium of the bytes.
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

/// A backend that is created anew whenever the file is opened.
pub(crate) fn medium<B: StorageBackend>(
    make: impl Fn() -> io::Result<B> + Send + Sync + 'static,
) -> Medium {
    Medium::Backend(Arc::new(move || Backend::new(make()?)))
}

/// Runs code of the database, which panics on some damaged pages.
pub(crate) fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("the database panicked").to_owned()
    })
}

/// The error of a damaged file. It names the repair command.
pub(crate) fn damaged(medium: &Medium, what: impl fmt::Display) -> Error {
    Error::store(
        format!(
            "{medium} is damaged: {what}; restore a copy, or delete the file to begin with fresh keys"
        ),
        false,
    )
}

/// Why a file cannot be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The bytes are not what was written.
    Damaged(String),
    /// The file is in use, of a newer version, of another program, or not accessible.
    Refused(Error),
}

impl OpenError {
    fn damaged(what: impl fmt::Display) -> OpenError {
        OpenError::Damaged(what.to_string())
    }

    fn into_error(self, medium: &Medium) -> Error {
        match self {
            OpenError::Damaged(what) => damaged(medium, what),
            OpenError::Refused(error) => error,
        }
    }
}

/// A database and its backend.
pub(crate) struct Opened {
    pub(crate) database: Database,
    pub(crate) backend: Backend,
}

/// Opens the database. A rejected file is not changed.
pub(crate) fn open(medium: &Medium) -> Result<Opened, Error> {
    let opened = match medium {
        Medium::Path(path) if !path.exists() => create(medium, path),
        Medium::Path(path) => {
            existing(medium, path).and_then(|backend| open_checked(medium, backend))
        }
        Medium::Backend(make) => make()
            .map_err(|error| refused(medium, DatabaseError::from(error)))
            .and_then(|backend| open_checked(medium, backend)),
    };
    opened.map_err(|error| error.into_error(medium))
}

/// The backend of an existing file.
pub(crate) fn existing(medium: &Medium, path: &Path) -> Result<Backend, OpenError> {
    let open = || -> Result<Backend, DatabaseError> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Backend::of_file(file)
    };
    let backend = open().map_err(|error| refused(medium, error))?;
    if backend.len().is_ok_and(|len| len == 0) {
        return Err(OpenError::damaged("it is empty, which a file of tollgate never is"));
    }
    Ok(backend)
}

/// A new file gets its name when it is complete, so that a crash leaves no empty file behind.
fn create(medium: &Medium, path: &Path) -> Result<Opened, OpenError> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.new", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let backend = || -> Result<Backend, DatabaseError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(&unfinished)?;
        Backend::of_file(file)
    };
    let opened = backend()
        .map_err(|error| refused(medium, error))
        .and_then(|backend| open_checked(medium, backend))
        .and_then(|opened| {
            let named = give_name(&unfinished, path);
            named.map_err(|error| refused(medium, DatabaseError::from(error)))?;
            Ok(opened)
        });
    // After a hard link or an error, the temporary name remains.
    let _ = fs::remove_file(&unfinished);
    opened
}

/// Gives the file its name, unless another process was faster.
fn give_name(unfinished: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(unfinished, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
        // Not every file system has hard links.
        Err(_) => fs::rename(unfinished, path)?,
        Ok(()) => {}
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    // The name must survive a power failure too. Some systems cannot sync directories.
    let _ = fs::File::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync_all());
    Ok(())
}

/// Opens the database. Writes nothing until the checksums of all pages are verified.
fn open_checked(medium: &Medium, backend: Backend) -> Result<Opened, OpenError> {
    let Loaded { mut database, recovered } = load(medium, &backend)?;
    let result = caught(|| {
        // After a crash redb itself has verified all pages.
        if !recovered {
            check(&mut database, medium)?;
        }
        recognize(&database, medium, &backend)
    });
    if let Err(error) = result.unwrap_or_else(|panic| Err(OpenError::Damaged(panic))) {
        close(database);
        return Err(error);
    }
    Ok(Opened { database, backend })
}

pub(crate) struct Loaded {
    pub(crate) database: Database,
    /// Whether the file was not closed. redb has then checked all pages.
    pub(crate) recovered: bool,
}

/// Opens the database without checking its pages. All writes are held back.
pub(crate) fn load(medium: &Medium, backend: &Backend) -> Result<Loaded, OpenError> {
    let recovered = Arc::new(AtomicBool::new(false));
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    let (flag, name) = (Arc::clone(&recovered), medium.to_string());
    builder.set_repair_callback(move |session| {
        flag.store(true, Ordering::Relaxed);
        if session.progress() == ROLLED_BACK {
            tracing::warn!(file = name, "the last commit is not complete: going back by one");
        }
    });
    let opened = caught(|| builder.create_with_backend(backend.clone()));
    let database = opened.map_err(OpenError::Damaged)?.map_err(|error| refused(medium, error))?;
    Ok(Loaded { database, recovered: recovered.load(Ordering::Relaxed) })
}

/// Closes a database that may be damaged.
pub(crate) fn close(database: Database) {
    if let Err(panic) = caught(|| drop(database)) {
        tracing::warn!(%panic, "the database could not be closed");
    }
}

/// Verifies the checksums of all pages.
pub(crate) fn check(database: &mut Database, medium: &Medium) -> Result<(), OpenError> {
    match database.check_integrity() {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::damaged("its pages do not match their checksums")),
        Err(error) => Err(refused(medium, error)),
    }
}

/// Why redb cannot open a file.
fn refused(medium: &Medium, error: DatabaseError) -> OpenError {
    let error = match error {
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
                return OpenError::damaged(format_args!(
                    "torn, or not a file of tollgate ({error})"
                ));
            }
            _ => Error::unavailable(format!("{medium}: {error}")),
        },
        error => {
            return OpenError::damaged(format_args!("torn, or not a file of tollgate ({error})"));
        }
    };
    OpenError::Refused(error)
}

/// The format of a file of tollgate that this version can read; `None` if the file has no tables.
pub(crate) fn known_format(database: &Database, medium: &Medium) -> Result<Option<u64>, OpenError> {
    let refused = |why: String| Err(OpenError::Refused(Error::store(why, false)));
    match format_of(database).map_err(|error| failed(medium, &error))? {
        Format::Known(format) if format > FORMAT => refused(format!(
            "{medium} has format {format}, and this version of tollgate knows {FORMAT}: it was written by a newer one"
        )),
        Format::Known(format) if format < OLDEST_FORMAT => {
            Err(OpenError::damaged(format_args!("it has format {format}")))
        }
        Format::Foreign(table) => {
            refused(format!("{medium} is not a file of tollgate: it has a table {table:?}"))
        }
        Format::Known(format) => Ok(Some(format)),
        Format::Empty => Ok(None),
    }
}

/// The number of the format, also one that this version cannot read.
pub(crate) fn format_in(database: &Database) -> Option<u64> {
    match format_of(database) {
        Ok(Format::Known(format)) => Some(format),
        _ => None,
    }
}

fn failed(medium: &Medium, error: &redb::Error) -> OpenError {
    OpenError::Refused(Error::unavailable(format!("{medium}: {error}")))
}

/// Writes what was held back if this version can read the file. Creates the tables of a new file.
fn recognize(database: &Database, medium: &Medium, backend: &Backend) -> Result<(), OpenError> {
    let is_current = known_format(database, medium)? == Some(FORMAT);
    backend.write_through().map_err(|error| failed(medium, &error.into()))?;
    if is_current { Ok(()) } else { begin(database).map_err(|error| failed(medium, &error)) }
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

/// Distinguishes files that have had the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Identity {
    /// The identity of the file that has this name now.
    pub(crate) fn of(medium: &Medium) -> io::Result<Option<Identity>> {
        let Medium::Path(path) = medium else { return Ok(None) };
        let metadata = fs::metadata(path)?;
        #[cfg(unix)]
        let identity = {
            use std::os::unix::fs::MetadataExt as _;
            Identity { device: metadata.dev(), inode: metadata.ino() }
        };
        #[cfg(not(unix))]
        let identity = {
            let _ = metadata;
            Identity {}
        };
        Ok(Some(identity))
    }
}
