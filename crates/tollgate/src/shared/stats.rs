//! Counters of what happened to calls.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! stats {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// How calls on a shared store were answered since it was made.
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
    /// Calls that the store answered.
    answered,
    /// Hits that were denied from memory, without asking the store.
    remembered,
    /// Calls that failed before the store could have executed them.
    unavailable,
    /// Calls that got no answer within their deadline, or whose answer was lost.
    lost,
    /// Calls that the store answered with an error.
    refused,
    /// Calls that were not sent because a breaker was open.
    skipped,
    /// Calls that were not sent because the store was overloaded: as many calls as it answers in
    /// time were under way.
    shed,
    /// Times a breaker opened.
    opened,
    /// Times a breaker closed again.
    closed,
    /// Decisions made without the store because the limiter fails open.
    failed_open,
    /// Decisions made without the store because the limiter fails closed.
    failed_closed,
    /// Decisions made by the local fallback.
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
