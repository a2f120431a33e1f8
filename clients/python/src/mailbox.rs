//! Answers for an asyncio event loop.
//!
//! tokio's threads never take the GIL: one that waited for it would hold up the connections that it
//! carries. They put answers into a mailbox and write a byte into a pipe, which the loop watches
//! like any other file. Many answers that come together wake the loop once.

use std::future::Future;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use pyo3::prelude::*;
use tokio::task::AbortHandle;
use tollgate::Error;

use crate::call::{Answer, poll_once};
use crate::decision::{Limits, to_python};
use crate::error::exception;
use crate::process::runtime;

/// The answers for one event loop.
#[pyclass(frozen, module = "pytollgate._native")]
#[derive(Debug)]
pub(crate) struct Mailbox {
    reader: PipeReader,
    letters: Arc<Letters>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Letters {
    waiting: Mutex<Vec<Letter>>,
    writer: PipeWriter,
}

#[derive(Debug)]
struct Letter {
    number: u64,
    answer: Result<Answer, Error>,
    limits: Arc<Limits>,
}

/// A call that was sent and has no answer yet.
#[pyclass(frozen, module = "pytollgate._native")]
#[derive(Debug)]
pub(crate) struct Pending {
    #[pyo3(get)]
    number: u64,
    task: AbortHandle,
}

#[pymethods]
impl Pending {
    /// Gives the call up. A wait whose hit is under way gives its units back.
    fn cancel(&self) {
        self.task.abort();
    }
}

#[pymethods]
impl Mailbox {
    #[new]
    fn new() -> PyResult<Mailbox> {
        let (reader, writer) = io::pipe()?;
        let letters = Arc::new(Letters { waiting: Mutex::default(), writer });
        Ok(Mailbox { reader, letters, next: AtomicU64::new(0) })
    }

    /// The file that the event loop watches.
    fn fileno(&self) -> i32 {
        self.reader.as_raw_fd()
    }

    /// The answers that have come: the number of the call, and its result or its exception.
    fn take(&self, py: Python<'_>) -> PyResult<Vec<(u64, Py<PyAny>, bool)>> {
        // One byte is in the pipe as long as there are letters, so this never waits.
        let _ = (&self.reader).read(&mut [0])?;
        let letters = std::mem::take(&mut *self.letters.lock());
        let open = |Letter { number, answer, limits }| match answer {
            Ok(answer) => Ok((number, to_python(py, answer, &limits)?, true)),
            Err(error) => Ok((number, exception(py, &error).into_value(py).into_any(), false)),
        };
        letters.into_iter().map(open).collect()
    }
}

impl Letters {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Letter>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, letter: Letter) {
        let mut waiting = self.lock();
        waiting.push(letter);
        if waiting.len() == 1 {
            // The loop may be gone, and then nobody waits for the answer.
            let _ = (&self.writer).write(&[0]);
        }
    }
}

impl Mailbox {
    /// Starts a call. Returns its answer if it does not have to wait, else what is pending.
    pub(crate) fn start(
        &self,
        py: Python<'_>,
        limits: &Arc<Limits>,
        call: impl Future<Output = Result<Answer, Error>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let mut call = Box::pin(call);
        if let Poll::Ready(answer) = poll_once(&mut call)? {
            return to_python(py, answer.map_err(|error| exception(py, &error))?, limits);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (letters, limits) = (Arc::clone(&self.letters), Arc::clone(limits));
        let task = runtime()?.spawn(async move {
            let answer = call.await;
            letters.put(Letter { number, answer, limits });
        });
        let pending = Pending { number, task: task.abort_handle() };
        Ok(Py::new(py, pending)?.into_any())
    }
}
