//! The task that connects a replica to its bus.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, watch};
use tollgate::{Clock, Timestamp};

use super::replica::{Outgoing, Replica};
use crate::bus::{Event, Line};

/// How long the bus may take to send the last messages.
const LONGEST_GOODBYE: Duration = Duration::from_secs(1);

/// The task is awake.
const AWAKE: u8 = 0;
/// The task sleeps and has nothing to send: the next change wakes it.
const IDLE: u8 = 1;
/// The task sleeps until the next flush: only a limit that is nearly reached wakes it.
const SLOW: u8 = 2;

/// The state that callers and the task share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) replica: Replica,
    pub(crate) clock: Arc<dyn Clock>,
    sleep: AtomicU8,
    wake: Notify,
    pub(crate) stop: Notify,
    ready: watch::Sender<bool>,
    ended: watch::Sender<bool>,
}

impl Shared {
    pub(crate) fn new(replica: Replica, clock: Arc<dyn Clock>) -> Shared {
        Shared {
            replica,
            clock,
            sleep: AtomicU8::new(AWAKE),
            wake: Notify::new(),
            stop: Notify::new(),
            ready: watch::Sender::new(false),
            ended: watch::Sender::new(false),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Called after every change. Wakes the task if it would send too late.
    #[inline]
    pub(crate) fn changed(&self) {
        let sleep = self.sleep.load(Ordering::SeqCst);
        let wake = match sleep {
            AWAKE => false,
            IDLE => self.replica.has_untold(),
            _ => self.replica.is_hurried(),
        };
        if wake && self.sleep.swap(AWAKE, Ordering::SeqCst) != AWAKE {
            self.wake.notify_one();
        }
    }

    /// Waits until the counts of the peers have been fetched.
    pub(crate) async fn wait_ready(&self) {
        let _ = self.ready.subscribe().wait_for(|ready| *ready).await;
    }

    pub(crate) async fn wait_ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Whether nothing has changed since the last look of the task, so that it may sleep.
    fn may_sleep(&self) -> bool {
        let sleep = if self.replica.has_untold() { SLOW } else { IDLE };
        self.sleep.store(sleep, Ordering::SeqCst);
        let late = match sleep {
            IDLE => self.replica.has_untold(),
            _ => self.replica.is_hurried(),
        };
        if late {
            self.sleep.store(AWAKE, Ordering::SeqCst);
        }
        !late
    }
}

/// Runs until the replica is stopped.
pub(crate) async fn run(shared: Arc<Shared>, mut line: Line) {
    let Shared { replica, ready, .. } = &*shared;
    let mut gone = false;
    loop {
        let now = shared.now();
        // Checked before the next tick is computed: any later change wakes the task.
        let may_sleep = shared.may_sleep();
        let wait = replica.next_tick().since(now);
        let wait = if may_sleep { wait } else { wait.min(replica.shortest_pause()) };
        let out = tokio::select! {
            biased;
            () = shared.stop.notified() => break,
            event = line.events.recv(), if !gone => event.map_or_else(|| {
                tracing::error!("the bus of a replica has ended; the replica decides alone");
                gone = true;
                replica.disconnected(shared.now());
                Vec::new()
            }, |event| hear(&shared, event)),
            () = shared.wake.notified() => Vec::new(),
            () = tokio::time::sleep(wait) => Vec::new(),
        };
        shared.sleep.store(AWAKE, Ordering::SeqCst);
        send(&line, out);
        let now = shared.now();
        if now >= replica.next_tick() {
            send(&line, replica.tick(now));
        }
        if !*ready.borrow() && replica.is_ready() {
            ready.send_replace(true);
        }
    }
    let Line { outgoing, mut events } = line;
    for message in replica.leave(shared.now()) {
        let _ = outgoing.send(message).await;
    }
    drop(outgoing);
    // The bus ends when everything is sent. A process that exits before would lose its last
    // messages.
    let sent = async { while events.recv().await.is_some() {} };
    let _ = tokio::time::timeout(LONGEST_GOODBYE, sent).await;
    shared.ended.send_replace(true);
}

fn hear(shared: &Shared, event: Event) -> Vec<Outgoing> {
    match event {
        Event::Connected => shared.replica.connected(shared.now()),
        Event::Disconnected => {
            shared.replica.disconnected(shared.now());
            Vec::new()
        }
        Event::Message(bytes) => shared.replica.receive(&bytes, shared.now()),
    }
}

fn send(line: &Line, out: Vec<Outgoing>) {
    for message in out {
        // A bus that is too slow loses messages. Comparing digests finds what is missing.
        if let Err(TrySendError::Full(_)) = line.outgoing.try_send(message) {
            tracing::debug!("the bus of a replica is full: a message is lost");
        }
    }
}
