//! Limits that a client sent lately, ready to be asked.

use std::sync::Arc;

use crate::service::{Bound, Refusal};

/// How many are remembered: who sends more different ones at a time asks the service, which remembers more.
const ROOM: usize = 4;

/// The four numbers of a throttle command as they stand for a limit: who counts it, burst, count, period.
pub(super) type Numbers = (&'static str, u64, u64, u64);

#[derive(Debug, Default)]
pub(super) struct Memo {
    known: Vec<(Numbers, Arc<Bound>)>,
    /// Of the service that it is from.
    edition: u64,
    /// The one to be replaced next.
    oldest: usize,
}

impl Memo {
    #[inline]
    pub(super) fn find(
        &mut self,
        edition: u64,
        numbers: Numbers,
        make: impl FnOnce() -> Result<Arc<Bound>, Refusal>,
    ) -> Result<Arc<Bound>, Refusal> {
        if self.edition != edition {
            *self = Memo { edition, ..Memo::default() };
        }
        if let Some((_, bound)) = self.known.iter().find(|(known, _)| *known == numbers) {
            return Ok(Arc::clone(bound));
        }
        let bound = make()?;
        let entry = (numbers, Arc::clone(&bound));
        if self.known.len() < ROOM {
            self.known.push(entry);
        } else {
            self.known[self.oldest] = entry;
            self.oldest = (self.oldest + 1) % ROOM;
        }
        Ok(bound)
    }
}
