//! Buses, which carry messages between replicas.
//!
//! A [`Bus`] is an existing messaging system: NATS (feature `nats`), Redis or Valkey pub/sub
//! (feature `redis`), or channels within this process ([`InMemory`]). It may lose, duplicate and
//! reorder messages; replicas tolerate that. It reconnects by itself and reports when it has.

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

/// The most messages that wait in each direction of a line. Further messages are dropped, as on any
/// bus.
const WAITING: usize = 4096;

/// The default prefix of channels and subjects. Replicas with one prefix are one fleet.
#[cfg(any(feature = "nats", feature = "redis"))]
const PREFIX: &str = "tollgate";

/// Carries messages to all replicas, or to one.
///
/// Your own bus spawns a task that empties [`Far::outgoing`] and fills [`Far::events`]:
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
    /// Joins under this name until the line is dropped. Called on a tokio runtime.
    fn join(self, actor: Actor) -> Line;
}

/// A replica's end of a bus.
///
/// See the example of [`Bus`].
#[derive(Debug)]
pub struct Line {
    /// Messages to send.
    pub outgoing: mpsc::Sender<Outgoing>,
    /// Messages of others, and changes of the connection.
    pub events: mpsc::Receiver<Event>,
}

/// The bus's end of a [`Line`].
///
/// See the example of [`Bus`].
#[derive(Debug)]
pub struct Far {
    /// Messages to send; ends when the replica leaves.
    pub outgoing: mpsc::Receiver<Outgoing>,
    /// The channel for messages that have arrived.
    pub events: mpsc::Sender<Event>,
}

/// An event on a bus.
///
/// See the example of [`Bus`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The bus is connected, for the first time or again. Messages may have been missed.
    Connected,
    /// The bus is disconnected.
    Disconnected,
    /// A message, possibly of this replica itself.
    Message(Vec<u8>),
}

impl Line {
    /// Creates a line between a replica and its bus, and returns both ends.
    ///
    /// See the example of [`Bus`].
    #[must_use]
    pub fn new() -> (Line, Far) {
        let (outgoing, to_carry) = mpsc::channel(WAITING);
        let (arrived, events) = mpsc::channel(WAITING);
        (Line { outgoing, events }, Far { outgoing: to_carry, events: arrived })
    }
}
