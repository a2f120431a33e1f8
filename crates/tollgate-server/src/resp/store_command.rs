//! A command that needs the store, and the format of its reply.

use std::sync::Arc;

use super::reply::{Protocol, Reply};
use super::reply_format::{self, ReplyFormat};
use super::trace::Traced;
use super::waiting::WaitingCommands;
use crate::observe;
use crate::service::{
    BoundRule, Operation, Receipts, RequestError, RuleDecision, RuleHit, Service,
};

/// A command that needs the store. `K` is a key: borrowed from the bytes of the client, or owned by
/// a command that waits.
#[derive(Debug)]
pub(super) struct StoreCommand<K> {
    pub(super) action: Action<K>,
    pub(super) format: ReplyFormat,
}

#[derive(Debug)]
pub(super) enum Action<K> {
    Execute {
        rule: Arc<BoundRule>,
        key: K,
        operation: Operation,
    },
    Reset {
        rule: Arc<BoundRule>,
        key: K,
    },
    /// A refund by receipts.
    Refund {
        rule: Arc<BoundRule>,
        key: K,
        receipts: Receipts,
    },
    /// Hits, all or nothing.
    All(Vec<KeyHit<K>>),
    /// Hits, independent of each other; an item that is not valid has its error.
    Each(Vec<Result<KeyHit<K>, RequestError>>),
}

/// A command of a client as one for the store.
pub(super) type Parsed<'a> = Result<StoreCommand<&'a [u8]>, RequestError>;

/// Rule, key, cost.
pub(super) type KeyHit<K> = (Arc<BoundRule>, K, u64);

pub(super) type OwnedBytes = Box<[u8]>;

impl StoreCommand<&[u8]> {
    pub(super) fn into_owned(self) -> StoreCommand<OwnedBytes> {
        let hit = |(rule, key, cost): KeyHit<&[u8]>| (rule, key.into(), cost);
        let action = match self.action {
            Action::Execute { rule, key, operation } => {
                Action::Execute { rule, key: key.into(), operation }
            }
            Action::Reset { rule, key } => Action::Reset { rule, key: key.into() },
            Action::Refund { rule, key, receipts } => {
                Action::Refund { rule, key: key.into(), receipts }
            }
            Action::All(hits) => Action::All(hits.into_iter().map(hit).collect()),
            Action::Each(hits) => Action::Each(hits.into_iter().map(|one| one.map(hit)).collect()),
        };
        StoreCommand { action, format: self.format }
    }
}

impl StoreCommand<OwnedBytes> {
    /// The keys whose counters it may change.
    pub(super) fn keys(&self) -> Vec<OwnedBytes> {
        match &self.action {
            Action::Execute { key, .. }
            | Action::Reset { key, .. }
            | Action::Refund { key, .. } => vec![key.clone()],
            Action::All(hits) => hits.iter().map(|(_, key, _)| key.clone()).collect(),
            Action::Each(hits) => hits.iter().flatten().map(|(_, key, _)| key.clone()).collect(),
        }
    }

    /// Runs it and writes the reply.
    pub(super) async fn run(self, service: &Arc<Service>, reply: &mut Reply<'_>) {
        match self.action {
            Action::Execute { rule, key, operation } => {
                let decision = service.execute(&rule, &key[..], operation).await;
                write(self.format, &decision, &key, reply);
            }
            Action::Reset { rule, key } => match rule.reset(&key[..]).await {
                Ok(was_there) => reply.integer(i64::from(was_there)),
                Err(error) => reply_format::error(&error, reply),
            },
            Action::Refund { rule, key, receipts } => {
                match service.refund_receipts(&rule, &key[..], &receipts).await {
                    Ok(refund) => reply_format::refund(refund, reply),
                    Err(error) => reply_format::error(&error, reply),
                }
            }
            Action::All(hits) => {
                let hits: Vec<_> = hits
                    .iter()
                    .map(|(rule, key, cost)| RuleHit { rule, key: &key[..], cost: *cost })
                    .collect();
                match service.hit_all(&hits).await {
                    Ok(decisions) => {
                        let keys = hits.iter().map(|hit| hit.key);
                        reply_format::all(&decisions, keys, self.format, reply);
                    }
                    Err(error) => reply_format::error(&error, reply),
                }
            }
            Action::Each(hits) => {
                reply.array(hits.len());
                let mut waiting = each(hits, self.format, service, reply.protocol);
                std::future::poll_fn(|cx| waiting.poll(cx, None)).await;
                waiting.write(reply.out);
            }
        }
    }
}

/// Starts hits that are independent of each other.
fn each(
    hits: Vec<Result<KeyHit<OwnedBytes>, RequestError>>,
    format: ReplyFormat,
    service: &Arc<Service>,
    protocol: Protocol,
) -> WaitingCommands {
    let mut waiting = WaitingCommands::default();
    for hit in hits {
        match hit {
            Ok((rule, key, cost)) => {
                let action = Action::Execute { rule, key, operation: Operation::Hit(cost) };
                let command = StoreCommand { action, format };
                waiting.push(command, service, protocol, Traced::default());
            }
            Err(error) => {
                service.observer().port(observe::Protocol::Resp).wrong();
                reply_format::error(&error, &mut Reply::new(waiting.replies(), protocol));
            }
        }
    }
    waiting
}

pub(super) fn write(
    format: ReplyFormat,
    decision: &Result<RuleDecision<'_>, RequestError>,
    key: &[u8],
    reply: &mut Reply<'_>,
) {
    match decision {
        Ok(decision) => format.write(decision, key, reply),
        Err(error) => reply_format::error(error, reply),
    }
}
