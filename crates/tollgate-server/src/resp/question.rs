//! What a command asks of the store.

use std::sync::Arc;

use super::flight::Flight;
use super::reply::{Protocol, Reply};
use super::shape::{self, Shape};
use super::trace::Traced;
use crate::observe;
use crate::service::{Answer, BoundRule, Item, Operation, RequestError, Service};

/// A question, and how its answer is told. `K` is a key: borrowed from what the client sent, or its
/// own if it has to wait.
#[derive(Debug)]
pub(super) struct Question<K> {
    pub(super) what: What<K>,
    pub(super) shape: Shape,
}

#[derive(Debug)]
pub(super) enum What<K> {
    Ask {
        bound: Arc<BoundRule>,
        key: K,
        operation: Operation,
    },
    Reset {
        bound: Arc<BoundRule>,
        key: K,
    },
    /// Hits, all or nothing.
    All(Vec<Hit<K>>),
    /// Hits, each for itself; an item that makes no sense has its error.
    Each(Vec<Result<Hit<K>, RequestError>>),
}

/// Limit, key, cost.
pub(super) type Hit<K> = (Arc<BoundRule>, K, u64);

pub(super) type OwnKey = Box<[u8]>;

impl Question<&[u8]> {
    pub(super) fn owned(self) -> Question<OwnKey> {
        let hit = |(bound, key, cost): Hit<&[u8]>| (bound, key.into(), cost);
        let what = match self.what {
            What::Ask { bound, key, operation } => What::Ask { bound, key: key.into(), operation },
            What::Reset { bound, key } => What::Reset { bound, key: key.into() },
            What::All(items) => What::All(items.into_iter().map(hit).collect()),
            What::Each(items) => What::Each(items.into_iter().map(|item| item.map(hit)).collect()),
        };
        Question { what, shape: self.shape }
    }
}

impl Question<OwnKey> {
    /// The keys whose counters it may change.
    pub(super) fn keys(&self) -> Vec<OwnKey> {
        match &self.what {
            What::Ask { key, .. } | What::Reset { key, .. } => vec![key.clone()],
            What::All(items) => items.iter().map(|(_, key, _)| key.clone()).collect(),
            What::Each(items) => items.iter().flatten().map(|(_, key, _)| key.clone()).collect(),
        }
    }

    /// Asks, and tells the answer.
    pub(super) async fn reply(self, service: Arc<Service>, protocol: Protocol) -> Vec<u8> {
        let mut out = Vec::new();
        match self.what {
            What::Ask { bound, key, operation } => {
                let answer = service.ask(&bound, &key[..], operation).await;
                tell(self.shape, &answer, &mut Reply { out: &mut out, protocol });
            }
            What::Reset { bound, key } => {
                let reply = &mut Reply { out: &mut out, protocol };
                match bound.reset(&key[..]).await {
                    Ok(was_there) => reply.integer(i64::from(was_there)),
                    Err(error) => shape::error(&error, reply),
                }
            }
            What::All(items) => {
                let items: Vec<_> = items
                    .iter()
                    .map(|(bound, key, cost)| Item { bound, key: &key[..], cost: *cost })
                    .collect();
                let answers = service.hit_all(&items).await;
                let reply = &mut Reply { out: &mut out, protocol };
                match answers {
                    Ok(answers) => shape::all(&answers, reply),
                    Err(error) => shape::error(&error, reply),
                }
            }
            What::Each(items) => {
                Reply { out: &mut out, protocol }.array(items.len());
                let mut flight = Flight::default();
                for item in items {
                    let (bound, key, cost) = match item {
                        Ok(hit) => hit,
                        Err(error) => {
                            service.observer().port(observe::Protocol::Resp).wrong();
                            shape::error(&error, &mut Reply { out: flight.said(), protocol });
                            continue;
                        }
                    };
                    let what = What::Ask { bound, key, operation: Operation::Hit(cost) };
                    let question = Question { what, shape: self.shape };
                    flight.ask(question, &service, protocol, Traced::default());
                }
                std::future::poll_fn(|cx| flight.poll(cx, None)).await;
                flight.land(&mut out);
            }
        }
        out
    }
}

pub(super) fn tell(shape: Shape, answer: &Result<Answer, RequestError>, reply: &mut Reply<'_>) {
    match answer {
        Ok(answer) => shape.tell(answer, reply),
        Err(error) => shape::error(error, reply),
    }
}
