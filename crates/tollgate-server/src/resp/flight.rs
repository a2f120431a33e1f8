//! Commands of one pipeline that wait for the store at the same time.
//!
//! On a store elsewhere a pipeline of sixteen costs one round trip and not sixteen. Commands begin
//! in their order, and one that touches a key of another that is still under way waits for it, and
//! those behind it too. Answers are told in the order of the commands, whichever comes first.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::question::{OwnKey, Question};
use super::reply::Protocol;
use super::trace::Traced;
use crate::service::Service;

#[derive(Debug, Default)]
pub(super) struct Flight {
    slots: Vec<Slot>,
    begun: usize,
    asked: usize,
}

enum Slot {
    Said(Vec<u8>),
    Asked { keys: Vec<OwnKey>, answer: Pin<Box<dyn Future<Output = Vec<u8>> + Send>> },
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slot::Said(said) => f.debug_tuple("Said").field(said).finish(),
            Slot::Asked { keys, .. } => f.debug_struct("Asked").field("keys", keys).finish(),
        }
    }
}

impl Flight {
    /// How many wait for the store at most.
    const ROOM: usize = 64;

    pub(super) fn has_room(&self) -> bool {
        self.asked < Flight::ROOM
    }

    /// Where the next answer goes that needs no store.
    pub(super) fn said(&mut self) -> &mut Vec<u8> {
        if !matches!(self.slots.last(), Some(Slot::Said(_))) {
            self.slots.push(Slot::Said(Vec::new()));
        }
        match self.slots.last_mut() {
            Some(Slot::Said(said)) => said,
            _ => unreachable!("pushed above"),
        }
    }

    pub(super) fn ask(
        &mut self,
        question: Question<OwnKey>,
        service: &Arc<Service>,
        protocol: Protocol,
        traced: Traced,
    ) {
        let (keys, service) = (question.keys(), Arc::clone(service));
        let answer = Box::pin(async move {
            let said = question.reply(service, protocol).await;
            traced.end(&said);
            said
        });
        self.slots.push(Slot::Asked { keys, answer });
        self.asked += 1;
    }

    /// Ready when all are answered. `busy` is a key that somebody else still has under way.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, busy: Option<&[u8]>) -> Poll<()> {
        loop {
            let mut moved = false;
            while self.may_begin(busy) {
                self.begun += 1;
                moved = true;
            }
            let mut waiting = self.begun < self.slots.len();
            for slot in &mut self.slots[..self.begun] {
                let Slot::Asked { answer, .. } = slot else { continue };
                match answer.as_mut().poll(cx) {
                    Poll::Ready(said) => {
                        *slot = Slot::Said(said);
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

    fn may_begin(&self, busy: Option<&[u8]>) -> bool {
        let Some(next) = self.slots.get(self.begun) else { return false };
        let Slot::Asked { keys, .. } = next else { return true };
        let under_way = self.slots[..self.begun].iter().flat_map(|slot| match slot {
            Slot::Asked { keys, .. } => &keys[..],
            Slot::Said(_) => &[],
        });
        let mut under_way = under_way.map(|key| &key[..]).chain(busy);
        !under_way.any(|key| keys.iter().any(|own| own[..] == *key))
    }

    /// Tells all answers.
    pub(super) fn land(self, out: &mut Vec<u8>) {
        for slot in self.slots {
            if let Slot::Said(said) = slot {
                out.extend_from_slice(&said);
            }
        }
    }
}
