//! A disk in memory that fails on request.

use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use redb::{BackendError, StorageBackend};
use tollgate_durable::{Durable, DurableBuilder};

/// Handles share one disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    broken: Arc<AtomicBool>,
    /// The most bytes that fit, if there is a bound.
    room: Option<usize>,
    syncs: Arc<AtomicU64>,
    /// While it is held, nothing reaches the disk.
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
}

/// Opens the gate when it is dropped.
pub(crate) struct Held(Arc<Gate>);

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.shut.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.opened.notify_all();
    }
}

impl Disk {
    /// Nothing reaches the disk until the returned value is dropped.
    pub(crate) fn hold(&self) -> Held {
        *self.gate.shut.lock().unwrap_or_else(PoisonError::into_inner) = true;
        Held(Arc::clone(&self.gate))
    }

    /// How often it was synced.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::SeqCst)
    }

    /// A store on this disk.
    pub(crate) fn builder(&self) -> DurableBuilder {
        let disk = self.clone();
        Durable::builder("a disk in memory").backend(move || Ok(disk.clone()))
    }

    /// A disk with room for this many bytes.
    pub(crate) fn with_room(bytes: usize) -> Disk {
        Disk { room: Some(bytes), ..Disk::default() }
    }

    pub(crate) fn fail(&self, broken: bool) {
        self.broken.store(broken, Ordering::SeqCst);
    }

    /// Another disk with the same contents: what a crash leaves.
    pub(crate) fn as_it_is(&self) -> Disk {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Disk { bytes: Arc::new(Mutex::new(bytes)), ..Disk::default() }
    }

    fn bytes<T>(&self, f: impl FnOnce(&mut Vec<u8>) -> T) -> io::Result<T> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(no_space());
        }
        Ok(f(&mut self.bytes.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn no_space() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "no space left on device")
}

fn range(offset: u64, len: usize) -> std::ops::Range<usize> {
    let start = usize::try_from(offset).unwrap();
    start..start + len
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.bytes(|bytes| bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.bytes(|bytes| out.copy_from_slice(&bytes[range(offset, out.len())]))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).unwrap();
        if self.room.is_some_and(|room| len > room) {
            return Err(no_space());
        }
        self.bytes(|bytes| bytes.resize(len, 0))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut shut = self.gate.shut.lock().unwrap_or_else(PoisonError::into_inner);
        while *shut {
            shut = self.gate.opened.wait(shut).unwrap_or_else(PoisonError::into_inner);
        }
        drop(shut);
        self.syncs.fetch_add(1, Ordering::SeqCst);
        self.bytes(|_| ())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.bytes(|bytes| bytes[range(offset, data.len())].copy_from_slice(data))
    }

    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }
}
