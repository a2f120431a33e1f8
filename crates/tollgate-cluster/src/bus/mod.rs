//! What carries messages between replicas.
//!
//! A [`Bus`] is an engine that exists: NATS (feature `nats`), Redis or Valkey pub/sub (feature
//! `redis`), or nothing but this process ([`InMemory`]). It may lose, double and reorder messages;
//! replicas mend that. It connects again by itself and says when it has.

mod in_memory;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "redis")]
mod redis;
mod url;

pub use in_memory::InMemory;
#[cfg(feature = "nats")]
pub use nats::Nats;
#[cfg(feature = "redis")]
pub use redis::RedisPubSub;
pub use url::{AnyBus, open};

use tokio::sync::mpsc;

use crate::replicated::{Actor, Outgoing};

/// So many messages may wait on either side of a line. What finds no place is lost, as on any bus.
const WAITING: usize = 4096;

/// How channels and subjects begin unless told otherwise: replicas of one prefix are one fleet.
#[cfg(any(feature = "nats", feature = "redis"))]
const PREFIX: &str = "tollgate";

/// Carries messages to all replicas, or to one.
///
/// A bus of your own spawns a task that empties [`Far::outgoing`] and fills [`Far::events`]:
///
/// ```
/// use tollgate_cluster::bus::{Bus, Event, Line};
/// use tollgate_cluster::replicated::Actor;
///
/// /// Leads nowhere.
/// struct Nowhere;
///
/// impl Bus for Nowhere {
///     fn join(self, _actor: Actor) -> Line {
///         let (line, mut far) = Line::new();
///         tokio::spawn(async move {
///             let _ = far.events.send(Event::Connected).await;
///             while far.outgoing.recv().await.is_some() {}
///         });
///         line
///     }
/// }
/// ```
pub trait Bus: Send + 'static {
    /// Joins under this name, for as long as the line is held. Called on a tokio runtime.
    fn join(self, actor: Actor) -> Line;
}

/// A replica's end of a bus.
///
/// See the example of [`Bus`].
#[derive(Debug)]
pub struct Line {
    /// What is put here is carried.
    pub outgoing: mpsc::Sender<Outgoing>,
    /// What others have sent, and how the connection fares.
    pub events: mpsc::Receiver<Event>,
}

/// The bus's end of a [`Line`].
///
/// See the example of [`Bus`].
#[derive(Debug)]
pub struct Far {
    /// What is to be carried; ends when the replica leaves.
    pub outgoing: mpsc::Receiver<Outgoing>,
    /// Where messages go that have arrived.
    pub events: mpsc::Sender<Event>,
}

/// What happens on a bus.
///
/// See the example of [`Bus`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The bus can be used, for the first time or again: something may have been missed.
    Connected,
    /// It cannot be used for the time being.
    Disconnected,
    /// A message, perhaps one's own.
    Message(Vec<u8>),
}

impl Line {
    /// Both ends of a new line.
    ///
    /// See the example of [`Bus`].
    #[must_use]
    pub fn new() -> (Line, Far) {
        let (outgoing, to_carry) = mpsc::channel(WAITING);
        let (arrived, events) = mpsc::channel(WAITING);
        (Line { outgoing, events }, Far { outgoing: to_carry, events: arrived })
    }
}
