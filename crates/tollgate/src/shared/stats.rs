//! The counters of calls on a shared store.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! stats {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// The numbers of calls on a shared store since it was created, by their results.
        ///
        /// See [`Guard::stats`](super::Guard::stats).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])+ pub $name: u64,)+
        }

        /// The counters behind [`Stats`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)+
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Stats {
                Stats { $($name: self.$name.0.load(Ordering::Relaxed),)+ }
            }
        }
    };
}

stats! {
    /// The calls that the store answered with a decision.
    answered,
    /// The hits that were denied by a remembered denial, without asking the store.
    remembered,
    /// The calls that failed before the store could have executed them.
    unavailable,
    /// The calls that got no answer before their deadline, or whose answer was lost.
    lost,
    /// The calls that the store answered with an error.
    refused,
    /// The calls that were not sent because a breaker was open.
    skipped,
    /// The calls that were not sent because the store was overloaded: it already had as many calls
    /// in progress as it answers before their deadlines.
    shed,
    /// The number of times that a breaker opened.
    opened,
    /// The number of times that a breaker closed again.
    closed,
    /// The decisions of limiters that allow hits while the store does not answer.
    failed_open,
    /// The decisions of limiters that deny hits while the store does not answer.
    failed_closed,
    /// The decisions of local fallbacks.
    fallback,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
