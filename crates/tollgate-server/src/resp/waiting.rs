//! Commands of one pipeline that wait for the store at the same time.
//!
//! On a remote store a pipeline of sixteen costs one round trip and not sixteen. Commands start in
//! their order. A command waits for an earlier one on the same key that is still running, and so do
//! all commands after it. Replies are written in the order of the commands, whichever is ready
//! first.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::reply::{Protocol, Reply};
use super::store_command::{OwnedBytes, StoreCommand};
use super::trace::Traced;
use crate::service::Service;

#[derive(Debug, Default)]
pub(super) struct WaitingCommands {
    slots: Vec<Slot>,
    /// The slots that have started.
    started: usize,
    /// The slots that need the store.
    commands: usize,
}

enum Slot {
    /// Replies that are ready.
    Ready(Vec<u8>),
    Waiting {
        keys: Vec<OwnedBytes>,
        reply: Pin<Box<dyn Future<Output = Vec<u8>> + Send>>,
    },
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slot::Ready(replies) => f.debug_tuple("Ready").field(replies).finish(),
            Slot::Waiting { keys, .. } => f.debug_struct("Waiting").field("keys", keys).finish(),
        }
    }
}

impl WaitingCommands {
    /// The most commands that wait for the store at the same time.
    const MAX: usize = 64;

    pub(super) fn has_room(&self) -> bool {
        self.commands < WaitingCommands::MAX
    }

    /// The buffer for the next reply that needs no store.
    pub(super) fn replies(&mut self) -> &mut Vec<u8> {
        if !matches!(self.slots.last(), Some(Slot::Ready(_))) {
            self.slots.push(Slot::Ready(Vec::new()));
        }
        match self.slots.last_mut() {
            Some(Slot::Ready(replies)) => replies,
            _ => unreachable!("pushed above"),
        }
    }

    pub(super) fn push(
        &mut self,
        command: StoreCommand<OwnedBytes>,
        service: &Arc<Service>,
        protocol: Protocol,
        traced: Traced,
    ) {
        let (keys, service) = (command.keys(), Arc::clone(service));
        let reply = Box::pin(async move {
            let mut out = Vec::new();
            let mut reply = Reply::new(&mut out, protocol);
            command.run(&service, &mut reply).await;
            traced.end(reply.failure);
            out
        });
        self.slots.push(Slot::Waiting { keys, reply });
        self.commands += 1;
    }

    /// Returns `Ready` when all replies are ready. `busy` is the key of an earlier command that is
    /// still running.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, busy: Option<&[u8]>) -> Poll<()> {
        loop {
            let mut moved = false;
            while self.may_start(busy) {
                self.started += 1;
                moved = true;
            }
            let mut waiting = self.started < self.slots.len();
            for slot in &mut self.slots[..self.started] {
                let Slot::Waiting { reply, .. } = slot else { continue };
                match reply.as_mut().poll(cx) {
                    Poll::Ready(reply) => {
                        *slot = Slot::Ready(reply);
                        moved = true;
                    }
                    Poll::Pending => waiting = true,
                }
            }
            if !waiting {
                return Poll::Ready(());
            }
            if !moved {
                return Poll::Pending;
            }
        }
    }

    fn may_start(&self, busy: Option<&[u8]>) -> bool {
        let Some(next) = self.slots.get(self.started) else { return false };
        let Slot::Waiting { keys, .. } = next else { return true };
        let running = self.slots[..self.started].iter().flat_map(|slot| match slot {
            Slot::Waiting { keys, .. } => &keys[..],
            Slot::Ready(_) => &[],
        });
        let mut running = running.map(|key| &key[..]).chain(busy);
        !running.any(|key| keys.iter().any(|own| own[..] == *key))
    }

    /// Writes all replies.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        for slot in self.slots {
            if let Slot::Ready(replies) = slot {
                out.extend_from_slice(&replies);
            }
        }
    }
}
