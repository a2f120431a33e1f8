//! Limits that a client sent lately, ready to be asked.

use std::sync::Arc;

use crate::service::{Bound, Refusal, Service};

/// How many are remembered: who sends more different ones at a time asks the service, which remembers more.
const ROOM: usize = 4;

/// Longer texts are not worth the memory of a connection.
const LONGEST: usize = 64;

/// The four numbers of a throttle command as they stand for a limit: who counts it, burst, count, period.
pub(super) type Numbers = (&'static str, u64, u64, u64);

#[derive(Debug, Default)]
pub(super) struct Memo {
    numbers: Known<Numbers>,
    /// Namespace and limit.
    texts: Known<(Box<str>, Box<str>)>,
    /// Of the service that they are from.
    edition: u64,
}

#[derive(Debug)]
struct Known<Q> {
    known: Vec<(Q, Arc<Bound>)>,
    /// The one to be replaced next.
    oldest: usize,
}

impl Memo {
    /// The limit of these numbers.
    #[inline]
    pub(super) fn of_numbers(
        &mut self,
        edition: u64,
        numbers: Numbers,
        make: impl FnOnce() -> Result<Arc<Bound>, Refusal>,
    ) -> Result<Arc<Bound>, Refusal> {
        self.forget_others(edition);
        if let Some(bound) = self.numbers.find(|known| *known == numbers) {
            return Ok(bound);
        }
        let bound = make()?;
        self.numbers.keep(numbers, &bound);
        Ok(bound)
    }

    /// The limit of that name, or that says so.
    #[inline]
    pub(super) fn resolve(
        &mut self,
        service: &Service,
        namespace: &str,
        limit: &str,
    ) -> Result<Arc<Bound>, Refusal> {
        self.forget_others(service.edition());
        let same = |known: &(Box<str>, Box<str>)| *known.1 == *limit && *known.0 == *namespace;
        if let Some(bound) = self.texts.find(same) {
            return Ok(bound);
        }
        let bound = service.resolve(namespace, limit)?;
        if namespace.len() + limit.len() <= LONGEST {
            self.texts.keep((namespace.into(), limit.into()), &bound);
        }
        Ok(bound)
    }

    #[inline]
    fn forget_others(&mut self, edition: u64) {
        if self.edition != edition {
            *self = Memo { edition, ..Memo::default() };
        }
    }
}

impl<Q> Known<Q> {
    #[inline]
    fn find(&self, same: impl Fn(&Q) -> bool) -> Option<Arc<Bound>> {
        self.known.iter().find(|(known, _)| same(known)).map(|(_, bound)| Arc::clone(bound))
    }

    fn keep(&mut self, question: Q, bound: &Arc<Bound>) {
        let entry = (question, Arc::clone(bound));
        if self.known.len() < ROOM {
            self.known.push(entry);
        } else {
            self.known[self.oldest] = entry;
            self.oldest = (self.oldest + 1) % ROOM;
        }
    }
}

impl<Q> Default for Known<Q> {
    fn default() -> Self {
        Known { known: Vec::new(), oldest: 0 }
    }
}
