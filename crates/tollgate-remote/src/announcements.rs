//! Announcements of changed keys among the processes that use one store.
//!
//! A process remembers denials, and would repeat the denial of a key that another process has reset.
//! So a process that resets, sets or refunds a key announces it, and the others drop what they
//! remember about the key. An announcement contains the digest of the key, never the key, and the
//! number of its sender, who has dropped its own denials already and ignores it.
//!
//! A task sends announcements after the operation, so they neither delay it nor make it fail. They
//! may be lost, for example if a process ends or has no connection. Therefore a process drops all
//! remembered denials whenever it begins to listen, and no denial is remembered for longer than
//! [`denials_for`](tollgate::shared::GuardBuilder::denials_for).

use std::collections::BTreeSet;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tollgate::algorithm::Op;
use tollgate::shared::{Figure, Guard, StoreReport};
use tollgate::{Error, ErrorKind, KeyRef, Outcome};

use crate::Tokio;

/// The first pause before a process tries again to listen, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The most digests in one message. A message about more keys is about all keys, because channels
/// bound the length of messages.
const MOST_DIGESTS: usize = 1000;

/// The message that any key may have changed.
const ALL: &str = "*";

/// The way on which the processes that use one store send each other messages.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::Error> {
/// use std::sync::Arc;
/// use tokio::sync::broadcast;
/// use tollgate::algorithm::Op;
/// use tollgate::{Error, Key, shared::Guard};
/// use tollgate_remote::{Announcements, Channel, Hearing, Tokio};
///
/// struct InMemory(broadcast::Sender<String>);
///
/// impl Channel for InMemory {
///     async fn send(&self, message: String) -> Result<(), Error> {
///         self.0.send(message).map(drop).map_err(|_| Error::unavailable("nobody listens"))
///     }
///
///     async fn listen(&self, hearing: &Hearing) -> Error {
///         let mut messages = self.0.subscribe();
///         hearing.begin();
///         while let Ok(message) = messages.recv().await {
///             hearing.message(message.as_bytes());
///         }
///         Error::unavailable("messages were missed")
///     }
/// }
///
/// let (channel, mut others) = broadcast::channel(16);
/// let guard = Arc::new(Guard::default());
/// let announcements = Announcements::new(InMemory(channel), guard, Tokio::current("the store")?);
/// let reset = "alice".with_key(|key| announcements.of([(key, Op::Reset)].into_iter()));
/// announcements.decided(reset, &Ok(Vec::new()));
/// assert!(others.recv().await.is_ok_and(|message| message.ends_with("22e1")));
/// # Ok(())
/// # }
/// ```
pub trait Channel: Send + Sync + 'static {
    /// Sends a message to all processes that listen. It ends in bounded time.
    fn send(&self, message: String) -> impl Future<Output = Result<(), Error>> + Send;

    /// Subscribes to the messages and passes them on until the subscription ends. Returns why it
    /// ended, or why there is none.
    fn listen(&self, hearing: &Hearing) -> impl Future<Output = Error> + Send;
}

/// The receiving side of announcements.
///
/// See the example of [`Channel`].
#[derive(Debug)]
pub struct Hearing {
    guard: Arc<Guard>,
    /// The number with which the messages of this store begin, as text.
    sender: String,
    subscribed: AtomicBool,
}

impl Hearing {
    /// Records that messages arrive from now on. Messages may have been missed before, so all
    /// remembered denials are dropped.
    ///
    /// See the example of [`Channel`].
    pub fn begin(&self) {
        self.guard.forget_denials();
        self.subscribed.store(true, Ordering::Release);
    }

    /// Drops the denials that a message is about.
    ///
    /// See the example of [`Channel`].
    pub fn message(&self, message: &[u8]) {
        match digests(message, self.sender.as_bytes()) {
            Some(digests) => {
                for digest in digests {
                    self.guard.forget_digest(digest);
                }
            }
            None => self.guard.forget_denials(),
        }
    }
}

/// The announcements of one store in this process.
///
/// See the example of [`Channel`].
#[derive(Debug)]
pub struct Announcements<C: Channel> {
    shared: Arc<Shared<C>>,
    listener: OnceLock<AbortHandle>,
}

#[derive(Debug)]
struct Shared<C> {
    channel: C,
    hearing: Hearing,
    runtime: Tokio,
    outbox: Mutex<Outbox>,
    /// Whether the store refused the last message, and the last attempt to listen.
    refused_message: AtomicBool,
    refused_listener: AtomicBool,
}

/// The changes that wait to be announced together.
#[derive(Debug, Default)]
struct Outbox {
    changes: Changes,
    /// Whether a task is sending. It also sends the changes that are added meanwhile.
    sending: bool,
}

#[derive(Debug)]
enum Changes {
    Keys(BTreeSet<u16>),
    All,
}

/// Changes that one operation may make. They are announced when this value is dropped: after the
/// operation, even if its caller has given it up.
///
/// See the example of [`Channel`].
#[derive(Debug)]
pub struct Announcement<C: Channel> {
    shared: Arc<Shared<C>>,
    changes: Changes,
}

impl<C: Channel> Announcements<C> {
    /// Announcements over this channel, for the denials that this guard remembers.
    ///
    /// See the example of [`Channel`].
    pub fn new(channel: C, guard: Arc<Guard>, runtime: Tokio) -> Announcements<C> {
        let sender = format!("{:016x}", RandomState::new().hash_one(()));
        let hearing = Hearing { guard, sender, subscribed: AtomicBool::new(false) };
        let outbox = Mutex::default();
        let shared = Arc::new(Shared {
            channel,
            hearing,
            runtime,
            outbox,
            refused_message: AtomicBool::new(false),
            refused_listener: AtomicBool::new(false),
        });
        Announcements { shared, listener: OnceLock::new() }
    }

    /// The announcement of these operations. `None` if they give nothing back, or if no denials are
    /// remembered.
    ///
    /// See the example of [`Channel`].
    pub fn of<'a>(
        &self,
        operations: impl Iterator<Item = (KeyRef<'a>, Op)>,
    ) -> Option<Announcement<C>> {
        let digests: BTreeSet<u16> =
            operations.filter(|(_, op)| gives_back(*op)).map(|(key, _)| key.digest()).collect();
        (!digests.is_empty()).then(|| self.announcement(Changes::Keys(digests))).flatten()
    }

    /// The announcement of an operation on any number of keys.
    ///
    /// See the example of [`Channel`].
    pub fn of_all_keys(&self) -> Option<Announcement<C>> {
        self.announcement(Changes::All)
    }

    fn announcement(&self, changes: Changes) -> Option<Announcement<C>> {
        let announces = self.shared.hearing.guard.remembers_denials();
        announces.then(|| Announcement { shared: Arc::clone(&self.shared), changes })
    }

    /// Sends the announcement of an operation, unless it was certainly not executed. Listens from the
    /// first denial on.
    ///
    /// See the example of [`Channel`].
    pub fn decided(
        &self,
        announcement: Option<Announcement<C>>,
        result: &Result<Vec<Outcome>, Error>,
    ) {
        match (announcement, result) {
            (Some(announcement), Err(error)) if error.kind() == ErrorKind::Unavailable => {
                announcement.cancel();
            }
            // Dropping the announcement sends it.
            _ => {}
        }
        if result.as_ref().is_ok_and(|outcomes| outcomes.iter().any(|o| !o.allowed())) {
            self.listen();
        }
    }

    /// Listens from now on to announcements of other processes.
    fn listen(&self) {
        if self.shared.hearing.guard.remembers_denials() {
            let listen = || {
                let shared = Arc::clone(&self.shared);
                self.shared.runtime.spawn(shared.listen()).abort_handle()
            };
            self.listener.get_or_init(listen);
        }
    }

    /// The figure that says whether this process listens.
    fn figure(&self) -> Figure {
        let subscribed = self.shared.hearing.subscribed.load(Ordering::Acquire);
        Figure::gauge(
            "announcements_heard",
            "1 while this process listens to announcements of changed keys.",
            u64::from(subscribed),
        )
    }

    /// The figures and warnings of a store that has no others.
    ///
    /// See the example of [`Channel`].
    #[must_use]
    pub fn report(&self) -> StoreReport {
        let Shared { refused_message, refused_listener, .. } = &*self.shared;
        let refused =
            [refused_message, refused_listener].iter().any(|it| it.load(Ordering::Acquire));
        let warning = || "changed keys are not announced among processes".to_owned();
        StoreReport {
            figures: vec![self.figure()],
            warnings: refused.then(warning).into_iter().collect(),
            ..StoreReport::default()
        }
    }
}

impl<C: Channel> Drop for Announcements<C> {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }
}

impl<C: Channel> Announcement<C> {
    /// Drops the announcement of an operation that was certainly not executed.
    ///
    /// See the example of [`Channel`].
    pub fn cancel(mut self) {
        self.changes = Changes::default();
    }
}

impl<C: Channel> Drop for Announcement<C> {
    fn drop(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return;
        }
        let mut outbox = self.shared.outbox();
        outbox.changes.add(changes);
        if !std::mem::replace(&mut outbox.sending, true) {
            self.shared.runtime.spawn(Arc::clone(&self.shared).send());
        }
    }
}

impl<C: Channel> Shared<C> {
    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends messages until no changes wait.
    async fn send(self: Arc<Self>) {
        while let Some(message) = self.next_message() {
            match self.channel.send(message).await {
                Ok(()) => self.refused_message.store(false, Ordering::Release),
                Err(error) => self.failed(&error, &self.refused_message),
            }
        }
    }

    fn next_message(&self) -> Option<String> {
        let mut outbox = self.outbox();
        let changes = std::mem::take(&mut outbox.changes);
        outbox.sending = !changes.is_empty();
        outbox.sending.then(|| changes.message(&self.hearing.sender))
    }

    async fn listen(self: Arc<Self>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = self.channel.listen(&self.hearing).await;
            if self.hearing.subscribed.swap(false, Ordering::AcqRel) {
                pause = FIRST_PAUSE;
                self.refused_listener.store(false, Ordering::Release);
            }
            self.failed(&error, &self.refused_listener);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Logs the error: as a warning if the store has begun to refuse to publish or to subscribe,
    /// because waiting does not help against that.
    fn failed(&self, error: &Error, refused: &AtomicBool) {
        let store = self.hearing.guard.name();
        if error.kind() == ErrorKind::Store && !refused.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                store,
                %error,
                "changed keys are not announced: processes notice a reset, set or refund by another one only when a remembered denial ends, after `denials_for` at the latest"
            );
        } else {
            tracing::debug!(store, %error, "no announcement of changed keys");
        }
    }
}

impl Default for Changes {
    fn default() -> Self {
        Changes::Keys(BTreeSet::new())
    }
}

impl Changes {
    fn is_empty(&self) -> bool {
        matches!(self, Changes::Keys(digests) if digests.is_empty())
    }

    fn add(&mut self, other: Changes) {
        match (&mut *self, other) {
            (Changes::Keys(digests), Changes::Keys(mut more)) => digests.append(&mut more),
            _ => *self = Changes::All,
        }
    }

    /// The sender, then four hexadecimal digits for each digest, or [`ALL`].
    fn message(&self, sender: &str) -> String {
        let mut message = sender.to_owned();
        match self {
            Changes::Keys(digests) if digests.len() <= MOST_DIGESTS => {
                message.extend(digests.iter().map(|digest| format!("{digest:04x}")));
            }
            Changes::Keys(_) | Changes::All => message.push_str(ALL),
        }
        message
    }
}

/// The digests in a message, for a process with this number as a sender. `None` means all keys, and
/// so does a message of another form, which a later version may send.
fn digests(message: &[u8], own: &[u8]) -> Option<Vec<u16>> {
    if message.is_empty() || message.starts_with(own) {
        return Some(Vec::new());
    }
    let digest = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    message.get(own.len()..)?.chunks(4).map(digest).collect()
}

/// Whether a key may have more left after the operation than before.
fn gives_back(op: Op) -> bool {
    match op {
        Op::Hit(_) | Op::Peek(_) | Op::Take(_) | Op::Charge(_) => false,
        Op::Refund(_) | Op::RefundUnits(_) | Op::Set(_) | Op::Reset => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaa";
    const B: &[u8] = b"bbbbbbbbbbbbbbbb";

    #[test]
    fn a_message_has_each_digest_once_and_is_only_for_other_processes() {
        let mut changes = Changes::Keys(BTreeSet::from([0x22e1, 7]));
        changes.add(Changes::Keys(BTreeSet::from([7, 0xffff])));
        let message = changes.message(A);
        assert_eq!(message, format!("{A}000722e1ffff"));
        assert_eq!(digests(message.as_bytes(), B), Some(vec![7, 0x22e1, 0xffff]));
        assert_eq!(digests(message.as_bytes(), A.as_bytes()), Some(Vec::new()));
        changes.add(Changes::All);
        assert_eq!(digests(changes.message(A).as_bytes(), B), None);
    }

    #[test]
    fn a_message_about_too_many_keys_or_of_another_form_is_about_all_keys() {
        let most = u16::try_from(MOST_DIGESTS).unwrap();
        assert_eq!(Changes::Keys((0..most).collect()).message(A).len(), 16 + 4 * MOST_DIGESTS);
        assert_eq!(Changes::Keys((0..=most).collect()).message(A), format!("{A}{ALL}"));
        for message in
            ["*", "2", "aaaaaaaaaaaaaaaa00072", "aaaaaaaaaaaaaaaazzzz", "aaaaaaaaaaaaaaaaü12"]
        {
            assert_eq!(digests(message.as_bytes(), B), None, "{message:?}");
        }
        assert_eq!(digests(b"", B), Some(Vec::new()), "about no key");
    }
}
