//! A storage backend chosen at run time. It holds its writes back until the database is checked,
//! and reports before a commit that the file cannot grow.

use std::fs;
use std::io;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

use tollgate::keyed::lock;

/// A [`StorageBackend`] that writes nothing until [`Backend::write_through`]. Opening a database
/// writes to it, and a damaged or foreign file must stay as it is.
#[derive(Clone, Debug)]
pub(crate) struct Backend(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    inner: Box<dyn StorageBackend>,
    /// The same file, to allocate space on the disk.
    file: Option<fs::File>,
    /// `None` once writes go through.
    held: RwLock<Option<Held>>,
    growth: Mutex<Growth>,
}

/// redb can abort a transaction for which the file grew, but no longer uses a file after an error
/// of the disk. So while a transaction is put together, growth that fails is only pretended. Then
/// [`Backend::put_together`] returns the error, and the transaction must be aborted.
#[derive(Debug, Default)]
struct Growth {
    may_pretend: bool,
    /// The length that redb takes the file to have, after growth that was only pretended.
    pretended: Option<u64>,
    /// Why the file did not grow, or a page could not be written.
    no_room: Option<io::Error>,
}

/// The changes in their order. There are few: a check reads everything and writes only the header.
#[derive(Debug, Default)]
struct Held {
    changes: Vec<Change>,
    len: u64,
    /// This many bytes of the inner backend are still valid.
    valid: u64,
}

#[derive(Debug)]
enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

impl Backend {
    pub(crate) fn new(inner: impl StorageBackend) -> io::Result<Backend> {
        Backend::with(Box::new(inner), None)
    }

    pub(crate) fn of_file(file: fs::File) -> Result<Backend, redb::DatabaseError> {
        let same = file.try_clone()?;
        Ok(Backend::with(Box::new(FileBackend::new(file)?), Some(same))?)
    }

    fn with(inner: Box<dyn StorageBackend>, file: Option<fs::File>) -> io::Result<Backend> {
        let len = inner.len()?;
        let held = RwLock::new(Some(Held { len, valid: len, ..Held::default() }));
        Ok(Backend(Arc::new(Shared { inner, file, held, growth: Mutex::default() })))
    }

    /// Runs `work`, which changes pages in memory, and returns the error if the file could not grow
    /// for it.
    pub(crate) fn put_together<T>(&self, work: impl FnOnce() -> T) -> (T, Option<io::Error>) {
        lock(&self.0.growth).may_pretend = true;
        let result = work();
        let mut growth = lock(&self.0.growth);
        growth.may_pretend = false;
        (result, growth.no_room.take())
    }

    /// Why the disk rejected a write for lack of space, if that was the last error.
    pub(crate) fn no_room(&self) -> Option<io::Error> {
        lock(&self.0.growth).no_room.take()
    }

    /// Writes what was held back, in order. From now on all writes go through.
    pub(crate) fn write_through(&self) -> io::Result<()> {
        let mut held = self.held_mut();
        for change in held.as_ref().map_or(&[][..], |held| &held.changes) {
            match change {
                Change::Write(offset, data) => self.0.inner.write(*offset, data)?,
                Change::SetLen(len) => self.0.inner.set_len(*len)?,
                Change::Sync => self.0.inner.sync_data()?,
            }
        }
        *held = None;
        Ok(())
    }

    fn held(&self) -> RwLockReadGuard<'_, Option<Held>> {
        self.0.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn held_mut(&self) -> RwLockWriteGuard<'_, Option<Held>> {
        self.0.held.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a change back, or passes it on.
    fn change(
        &self,
        change: impl FnOnce(&mut Held) -> Change,
        pass_on: impl FnOnce(&dyn StorageBackend) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.held().is_none() {
            return self.0.noted(pass_on(&*self.0.inner));
        }
        if let Some(held) = &mut *self.held_mut() {
            let change = change(held);
            held.changes.push(change);
        }
        Ok(())
    }
}

impl Shared {
    /// Notes that the disk is full.
    fn noted(&self, result: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &result
            && is_no_room(error)
        {
            lock(&self.growth).no_room = Some(io::Error::new(error.kind(), error.to_string()));
        }
        result
    }

    fn len(&self) -> io::Result<u64> {
        lock(&self.growth).pretended.map_or_else(|| self.inner.len(), Ok)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let before = self.inner.len()?;
        let result = if len > before { self.grow(before, len) } else { self.inner.set_len(len) };
        let mut growth = lock(&self.growth);
        growth.pretended = None;
        match result {
            Err(error) if growth.may_pretend && is_no_room(&error) => {
                growth.pretended = Some(len);
                growth.no_room = Some(error);
                Ok(())
            }
            result => {
                drop(growth);
                self.noted(result)
            }
        }
    }

    /// Grows the file and allocates the space on the disk. Without the space, the system could
    /// later reject a write to a page that redb counts as free.
    fn grow(&self, before: u64, len: u64) -> io::Result<()> {
        if let Some(file) = &self.file
            && let Err(error) = allocate(file, before, len - before)
            && is_no_room(&error)
        {
            // Part of it may have been allocated.
            self.inner.set_len(before)?;
            return Err(error);
        }
        self.inner.set_len(len)
    }
}

/// Whether the error means that the disk is full; existing pages can still be used.
fn is_no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Not every system and file system supports this.
#[cfg(target_os = "linux")]
fn allocate(file: &fs::File, offset: u64, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    Ok(fallocate(file, FallocateFlags::empty(), offset, len)?)
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &fs::File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Held {
    fn read(&self, inner: &dyn StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        if end > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.fill(0);
        if let Some(valid) = out.get_mut(..within(self.valid, offset, end)) {
            inner.read(offset, valid)?;
        }
        for change in &self.changes {
            match change {
                Change::Write(start, data) => {
                    let first = offset.max(*start);
                    let last = end.min(start + data.len() as u64);
                    if first < last {
                        let to = within(first, offset, end)..within(last, offset, end);
                        let from = within(first, *start, last)..within(last, *start, last);
                        out[to].copy_from_slice(&data[from]);
                    }
                }
                Change::SetLen(len) => out[within(*len, offset, end)..].fill(0),
                Change::Sync => {}
            }
        }
        Ok(())
    }
}

/// The index of `position` in a buffer that covers `start..end`, or the nearest one.
fn within(position: u64, start: u64, end: u64) -> usize {
    usize::try_from(position.clamp(start, end) - start).unwrap_or(usize::MAX)
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        match &*self.held() {
            Some(held) => Ok(held.len),
            None => self.0.len(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match &*self.held() {
            Some(held) => held.read(&*self.0.inner, offset, out),
            None => self.0.inner.read(offset, out),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let hold = |held: &mut Held| {
            held.len = len;
            held.valid = held.valid.min(len);
            Change::SetLen(len)
        };
        self.change(hold, |_| self.0.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(|_| Change::Sync, StorageBackend::sync_data)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let hold = |held: &mut Held| {
            held.len = held.len.max(offset + data.len() as u64);
            Change::Write(offset, data.to_vec())
        };
        self.change(hold, |inner| inner.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.0.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.0.inner.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.inner.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.inner.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.inner.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.inner.query_lock_range(start, end)
    }
}
