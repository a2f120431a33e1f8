//! A bus within one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::Sender;

use super::{Bus, Event, Line};
use crate::replicated::{Actor, Outgoing};

/// Carries messages between replicas of one process: for tests and examples. Clones are the same
/// bus.
///
/// ```
/// # async fn example() -> Result<(), tollgate::Error> {
/// use tollgate_cluster::{bus::InMemory, replicated::Replicated};
/// let bus = InMemory::new();
/// let one = Replicated::builder(bus.clone()).start().await?;
/// let other = Replicated::builder(bus).start().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct InMemory(Arc<Mutex<HashMap<Actor, Sender<Event>>>>);

impl InMemory {
    /// A bus without members.
    ///
    /// See the example of [`InMemory`].
    #[must_use]
    pub fn new() -> InMemory {
        InMemory::default()
    }

    fn carry(&self, from: Actor, Outgoing { to, bytes }: &Outgoing) {
        let mut members = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        members.retain(|_, events| !events.is_closed());
        for (actor, events) in &*members {
            if *actor != from && to.is_none_or(|to| to == *actor) {
                // A full channel drops messages, as any bus may.
                let _ = events.try_send(Event::Message(bytes.clone()));
            }
        }
    }
}

impl Bus for InMemory {
    fn join(self, actor: Actor) -> Line {
        let (line, mut far) = Line::new();
        let _ = far.events.try_send(Event::Connected);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(actor, far.events);
        tokio::spawn(async move {
            while let Some(message) = far.outgoing.recv().await {
                self.carry(actor, &message);
            }
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&actor);
        });
        line
    }
}
