//! A store of [`tollgate`] that outlives the process: memory decides, a file keeps. It needs no
//! other software.
//!
//! ```
//! use tollgate_durable::Durable;
//!
//! # let directory = tollgate_testservers::Directory::new();
//! # let path = directory.path().join("limits").display().to_string();
//! # tollgate_testkit::block_on(async {
//! let store = Durable::open(&path)?;
//! assert!(store.limiter("1/hour")?.hit("user:42").await?.allowed());
//! store.close()?;
//!
//! // The next start of the program.
//! let store = Durable::open(&path)?;
//! assert!(!store.limiter("1/hour")?.hit("user:42").await?.allowed());
//! # Ok::<(), tollgate::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Levels
//!
//! | [`Level`] | a hit waits for the disk | after a crash |
//! | --- | --- | --- |
//! | `none` | never | all since the store was opened is forgotten |
//! | `interval` | never | the last interval is forgotten: by default one second |
//! | `reserve`, the default | seldom: when a key has used what was reserved for it | nothing is forgotten of a key that has a record; a key that was fresh may be forgotten for an interval. A key has up to its reserve less than it should |
//! | `sync` | always when something is charged; concurrent ones together | nothing is forgotten |
//!
//! An orderly end ([`Durable::close`], or dropping the last handle) forgets nothing at any level.
//!
//! The reserve of a key is what it lately used in two intervals, and at most an eighth of what the
//! limit admits at one instant, or what it admits in one interval if that is more. So a limit below
//! eight has no reserve: its hits wait for the disk, except the first hit of a fresh key, and lose
//! nothing. Elastic windows have none either.
//!
//! Changes by denied attempts (the end of an elastic window, the count of a limit with
//! `charge-denied`) are written without waiting: a crash may forget an interval of them.
//!
//! # Time
//!
//! The clock is this process's. While the process runs it never goes back. If the wall clock went
//! back from one run to the next, the states keep it from admitting more, and nothing is locked for
//! longer than the jump plus the limit's own wait.
//!
//! # Cost
//!
//! A hit that does not wait is a look-up in memory without a system call. A hit that waits takes
//! one commit, about one `fdatasync`, or two if one was just in progress. The first call on a key
//! that may be in the file (only after a start with a non-empty file) reads the file.

mod address;
mod backend;
mod builder;
mod clock;
#[cfg(test)]
mod crashes;
mod file;
mod inspect;
mod keeper;
mod level;
mod limits;
mod mark;
mod opening;
mod pages;
mod queue;
mod record;
mod spare;
mod table;
mod timer;
mod writer;

pub use builder::DurableBuilder;
pub use inspect::{FileReport, LimitReport, RepairReport, check_file, repair_file};
pub use keeper::Prepared;
pub use level::Level;

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::keyed::lock;
use tollgate::shared::{Ask, Guard, GuardBuilder, HitItem, Place, SharedStore};
use tollgate::{Error, ErrorKind, Key, KeyRef, Limit, Outcome, OwnedKey, Timestamp};

use crate::keeper::{Done, Keeper};
use queue::{BatchResult, Written};
use timer::Timer;
use writer::Writer;

/// Limits kept in memory and in a file. A handle: clones share one store. Dropping the last one
/// closes it.
///
/// See [the crate](crate) for an example and what survives a crash.
#[derive(Clone, Debug)]
pub struct Durable {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    keeper: Arc<Keeper>,
    guard: Guard,
    timer: Timer,
    writer: Mutex<Option<JoinHandle<()>>>,
}

tollgate::limiters!(Durable);

impl Durable {
    /// The store in a file, with the defaults. The address is a path, or a URL with settings:
    /// `durable:/var/lib/app/limits?level=sync&interval=500ms&max_keys=100000`.
    ///
    /// # Errors
    /// As [`DurableBuilder::open`].
    ///
    /// See the example of [the crate](crate).
    pub fn open(address: impl Into<String>) -> Result<Durable, Error> {
        Durable::builder(address).open()
    }

    /// A builder with other settings. They override those of the address.
    ///
    /// See the example of [`DurableBuilder`].
    pub fn builder(address: impl Into<String>) -> DurableBuilder {
        DurableBuilder::new(address.into())
    }

    fn start(keeper: Keeper, guard: GuardBuilder) -> Result<Durable, Error> {
        let keeper = Arc::new(keeper);
        let failed = |error| Error::unavailable(format!("no thread for the store: {error}"));
        let timer = Timer::start().map_err(failed)?;
        let writer = Writer::new(Arc::clone(&keeper));
        let thread = std::thread::Builder::new().name("tollgate writer".into());
        let thread = thread.spawn(move || writer.run()).map_err(failed)?;
        let guard = guard.build_on(timer.clone());
        let inner = Inner { keeper, guard, timer, writer: Mutex::new(Some(thread)) };
        Ok(Durable { inner: Arc::new(inner) })
    }

    /// Writes everything and closes the file. Later calls get an error. Blocks until this is done.
    /// A second call does nothing and returns the same result.
    ///
    /// # Errors
    /// When the last states could not be written.
    ///
    /// See the example of [the crate](crate).
    pub fn close(&self) -> Result<(), Error> {
        self.inner.close();
        self.inner.keeper.how_it_closed()
    }

    /// Waits until all changes so far are on disk.
    ///
    /// # Errors
    /// When they could not be written.
    ///
    /// ```
    /// # use tollgate_durable::{Durable, Level};
    /// # let directory = tollgate_testservers::Directory::new();
    /// # let path = directory.path().join("limits").display().to_string();
    /// # tollgate_testkit::block_on(async {
    /// let store = Durable::builder(path).level(Level::None).open()?;
    /// store.limiter("1/hour")?.hit("user:42").await?;
    /// store.flush().await?;
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn flush(&self) -> Result<(), Error> {
        self.inner.keeper.is_open()?;
        all_of(Written(self.inner.keeper.queue.everything()).await)
    }

    /// Forgets all keys of all limits in a namespace, in slices.
    ///
    /// # Errors
    /// When the disk fails; some keys may be gone.
    pub async fn clear_namespace(&self, namespace: &str) -> Result<(), Error> {
        let cleared = Written(self.inner.keeper.clear(&Place::of_namespace(namespace))?);
        let cleared = all_of(cleared.await);
        // Whatever the result, some keys may be fresh now.
        self.inner.guard.forget_denials();
        cleared
    }

    /// The number of keys in memory, over all limits. Keys that are only in the file are read when
    /// they are first used.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.keeper.table.len()
    }

    /// True when no key is in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of hits that were decided on a state that unknown keys share, because the store
    /// was at its bound. It should stay zero.
    #[must_use]
    pub fn overflowed(&self) -> usize {
        self.inner.keeper.table.count.overflowed.load(Ordering::Relaxed)
    }

    /// When the record of a key in the file expires, `None` if it has none. First writes pending
    /// changes.
    ///
    /// # Errors
    /// When the limit is not valid, or the disk fails.
    pub async fn kept_until<L>(
        &self,
        namespace: &str,
        limit: L,
        key: impl Key,
    ) -> Result<Option<Timestamp>, Error>
    where
        L: TryInto<Limit>,
        Error: From<L::Error>,
    {
        let place = Place::new(namespace, &limit.try_into()?);
        self.flush().await?;
        let file = &self.inner.keeper.file;
        let Some(number) = file.number(place.prefix()) else { return Ok(None) };
        file.expiry(&file::name(number, OwnedKey::new(&key).as_key_ref()))
    }
}

impl Inner {
    fn close(&self) {
        self.keeper.refuse_all();
        self.keeper.queue.stop();
        let Some(writer) = lock(&self.writer).take() else { return };
        // The writer itself may drop the last handle, with the future of a caller.
        if writer.thread().id() != std::thread::current().id() && writer.join().is_err() {
            tracing::warn!("the writer panicked");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
        self.timer.stop();
    }
}

fn each(keeper: &Keeper, asks: &[Ask<'_, Prepared>], now: Timestamp) -> Result<Vec<Done>, Error> {
    let mut done = Vec::with_capacity(asks.len());
    keeper.have_room(asks.iter().map(|ask| (ask.prepared, ask.key, ask.op)), now)?;
    for ask in asks {
        let one = keeper.apply(ask.prepared, ask.key, ask.op, now);
        done.push(one.map_err(|error| match error.kind() {
            ErrorKind::Unavailable if !done.is_empty() => {
                Error::lost(format!("some keys were decided, others not: {error}"))
            }
            _ => error,
        })?);
    }
    Ok(done)
}

/// Waits until everything that these decisions depend on is on disk.
async fn outcomes_on_disk(done: Result<Vec<Done>, Error>) -> Result<Vec<Outcome>, Error> {
    let done = done?;
    for Done { batch, has_record, .. } in &done {
        let Some(batch) = batch else { continue };
        let no_room = Written(Arc::clone(batch)).await?;
        if let Some(error) = no_room.filter(|_| !has_record) {
            // The units are charged in memory although they are not on disk, so they may count.
            return Err(Error::lost(error.detail()));
        }
    }
    Ok(done.into_iter().map(|done| done.decision).collect())
}

/// The result, with missing room for new keys as an error.
fn all_of(written: BatchResult) -> Result<(), Error> {
    written?.map_or(Ok(()), Err)
}

impl SharedStore for Durable {
    type Prepared = Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        self.inner.keeper.prepare(namespace, limit)
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, Prepared>],
        at: Option<Timestamp>,
        _deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let keeper = &self.inner.keeper;
        outcomes_on_disk(each(keeper, asks, at.unwrap_or_else(|| keeper.clock.now())))
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, Prepared>],
        at: Option<Timestamp>,
        _deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let keeper = &self.inner.keeper;
        outcomes_on_disk(keeper.together(hits, at.unwrap_or_else(|| keeper.clock.now())))
    }

    #[inline]
    fn try_now(
        &self,
        prepared: &Prepared,
        key: KeyRef<'_>,
        op: Op,
        at: Option<Timestamp>,
    ) -> Option<Outcome> {
        self.inner.keeper.try_now(prepared, key, op, at)
    }

    fn clear(&self, prepared: &Prepared) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let walk = self.inner.keeper.clear(prepared.prefix());
        async move { all_of(Written(walk?).await) }
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let is_open = self.inner.keeper.is_open();
        let batch = is_open.map(|()| self.inner.keeper.queue.anything());
        async move { all_of(Written(batch?).await) }
    }

    fn guard(&self) -> &Guard {
        &self.inner.guard
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../../guides/durable.md")]
mod guide {}
