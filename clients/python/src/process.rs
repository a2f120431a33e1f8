//! The parts that belong to one process: the tokio runtime, and everything that lives on it.
//!
//! A fork copies the memory of a process but none of its threads. In the child the old runtime has
//! no workers, and its locks may be held by threads that do not exist. So the child never touches
//! what the parent made: not even to free it. It makes everything anew when it is first used.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

/// The number of forks between the process that imported this module and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

static RUNTIME: Mutex<Option<(u64, &'static Runtime)>> = Mutex::new(None);

/// Two threads carry the connections of a few stores. Callers wait in threads of their own.
const WORKERS: usize = 2;

/// Has Python tell every child of a fork about it.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let forked = wrap_pyfunction!(forked, module)?;
    let kwargs = pyo3::types::PyDict::new(module.py());
    kwargs.set_item("after_in_child", forked)?;
    module.py().import("os")?.call_method("register_at_fork", (), Some(&kwargs))?;
    Ok(())
}

#[pyfunction]
fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The runtime of this process. It is never dropped: it ends with the process.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    let mut known = lock(&RUNTIME);
    match *known {
        Some((made_in, runtime)) if made_in == generation() => Ok(runtime),
        _ => {
            let built = Builder::new_multi_thread()
                .worker_threads(WORKERS)
                .thread_name("tollgate")
                .enable_all()
                .build()?;
            let runtime: &'static Runtime = Box::leak(Box::new(built));
            *known = Some((generation(), runtime));
            Ok(runtime)
        }
    }
}

/// A value that each process makes for itself.
#[derive(Debug)]
pub(crate) struct PerProcess<T: 'static> {
    first: Option<T>,
    made_in: u64,
    /// The value of a child, which lives as long as the process: a fork of the child must not free
    /// it either.
    of_child: Mutex<Option<(u64, &'static T)>>,
}

impl<T> PerProcess<T> {
    pub(crate) fn new(first: T) -> Self {
        PerProcess { first: Some(first), made_in: generation(), of_child: Mutex::new(None) }
    }

    /// The value of this process. `make` makes it in a child.
    #[inline]
    pub(crate) fn get(&self, make: impl FnOnce() -> PyResult<T>) -> PyResult<&T> {
        match &self.first {
            Some(first) if self.made_in == generation() => Ok(first),
            _ => self.get_of_child(make),
        }
    }

    #[cold]
    fn get_of_child(&self, make: impl FnOnce() -> PyResult<T>) -> PyResult<&T> {
        let mut known = lock(&self.of_child);
        match *known {
            Some((made_in, value)) if made_in == generation() => Ok(value),
            _ => {
                let value: &'static T = Box::leak(Box::new(make()?));
                *known = Some((generation(), value));
                Ok(value)
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self.made_in != generation() {
            std::mem::forget(self.first.take());
        }
    }
}
