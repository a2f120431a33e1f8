//! Limits that a client sent lately, ready to be asked.

use std::sync::Arc;

use crate::service::{BoundRule, RequestError};

/// How many are remembered: who sends more different ones at a time asks the service, which
/// remembers more.
const ROOM: usize = 4;

/// The four numbers of a throttle command as they stand for a limit: who counts it, burst, count,
/// period.
pub(super) type Numbers = (&'static str, u64, u64, u64);

/// A namespace, and the name or the text of a limit in it.
#[derive(Debug)]
pub(super) struct Words(Box<str>, Box<str>);

impl PartialEq<(&str, &str)> for Words {
    fn eq(&self, (namespace, limit): &(&str, &str)) -> bool {
        *self.1 == **limit && *self.0 == **namespace
    }
}

impl From<(&str, &str)> for Words {
    fn from((namespace, limit): (&str, &str)) -> Words {
        Words(namespace.into(), limit.into())
    }
}

#[derive(Debug)]
pub(super) struct Memo<Sent> {
    known: Vec<(Sent, Arc<BoundRule>)>,
    /// Of the service that it is from.
    edition: u64,
    /// The one to be replaced next.
    oldest: usize,
}

impl<Sent> Default for Memo<Sent> {
    fn default() -> Self {
        Memo { known: Vec::new(), edition: 0, oldest: 0 }
    }
}

impl<Sent> Memo<Sent> {
    /// The limit that was sent so, found now or before. `edition` is the service's from before it
    /// is looked for.
    #[inline]
    pub(super) fn find<S>(
        &mut self,
        edition: u64,
        sent: S,
        look: impl FnOnce() -> Result<Arc<BoundRule>, RequestError>,
    ) -> Result<Arc<BoundRule>, RequestError>
    where
        Sent: PartialEq<S> + From<S>,
    {
        if self.edition != edition {
            *self = Memo { edition, ..Memo::default() };
        }
        if let Some((_, bound)) = self.known.iter().find(|(known, _)| *known == sent) {
            return Ok(Arc::clone(bound));
        }
        let bound = look()?;
        let entry = (sent.into(), Arc::clone(&bound));
        if self.known.len() < ROOM {
            self.known.push(entry);
        } else {
            self.known[self.oldest] = entry;
            self.oldest = (self.oldest + 1) % ROOM;
        }
        Ok(bound)
    }
}
