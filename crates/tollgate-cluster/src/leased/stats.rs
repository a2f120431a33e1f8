//! Counters of leasing.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::shared::Figure;

use crate::counter::Counter;

macro_rules! stats {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// Counters since the store was made.
        ///
        /// See [`Leased::stats`](super::Leased::stats).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct LeaseStats {
            $($(#[$doc])+ pub $name: u64,)+
            /// Keys with allotments, now or lately.
            pub keys: u64,
            /// Units of allotments that may still be spent, when last counted.
            pub held: u64,
            /// The most units that one key held then.
            pub largest: u64,
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)+
            held: AtomicU64,
            largest: AtomicU64,
        }

        impl Counters {
            pub(crate) fn snapshot(&self, keys: usize) -> LeaseStats {
                LeaseStats {
                    $($name: self.$name.value(),)+
                    keys: keys as u64,
                    held: self.held.load(Ordering::Relaxed),
                    largest: self.largest.load(Ordering::Relaxed),
                }
            }

            /// Notes the units that all keys hold, and the most that one key does.
            pub(crate) fn hold(&self, held: u64, largest: u64) {
                self.held.store(held, Ordering::Relaxed);
                self.largest.store(largest, Ordering::Relaxed);
            }
        }
    };
}

stats! {
    /// Calls that were answered from allotments: round trips saved, apart from the draws.
    in_hand,
    /// Hits among these that were denied because the store had lately had nothing.
    refused,
    /// Draws that the store answered.
    draws,
    /// Draws that failed.
    failed,
    /// Units that were drawn. Divided by `draws` this is the size of an allotment.
    drawn,
    /// Unspent units that were given back.
    given_back,
    /// Unspent units that the store could no longer use.
    ended,
}

impl LeaseStats {
    /// Calls on the store that allotments saved.
    ///
    /// ```
    /// # use tollgate::{Memory, shared::InProcess};
    /// # use tollgate_cluster::Leased;
    /// let leased = Leased::new(InProcess::new(Memory::new()));
    /// assert_eq!(leased.stats().round_trips_saved(), 0);
    /// ```
    #[must_use]
    pub fn round_trips_saved(&self) -> u64 {
        self.in_hand.saturating_sub(self.draws)
    }
}

impl LeaseStats {
    pub(super) fn figures(&self) -> [Figure; 11] {
        [
            Figure::counter(
                "lease_in_hand_total",
                "Calls that were answered from allotments.",
                self.in_hand,
            ),
            Figure::counter(
                "lease_refused_total",
                "Hits among these that were denied because the store had lately had nothing.",
                self.refused,
            ),
            Figure::counter("lease_draws_total", "Draws that the store answered.", self.draws),
            Figure::counter(
                "lease_draws_failed_total",
                "Draws that the store did not answer.",
                self.failed,
            ),
            Figure::counter(
                "lease_drawn_units_total",
                "Units that were drawn. Divided by the draws this is the size of an allotment.",
                self.drawn,
            ),
            Figure::counter(
                "lease_given_back_units_total",
                "Units that were not spent and given back.",
                self.given_back,
            ),
            Figure::counter(
                "lease_ended_units_total",
                "Units that were not spent and have ended.",
                self.ended,
            ),
            Figure::counter(
                "round_trips_saved_total",
                "Calls on the store that were not needed because of allotments.",
                self.round_trips_saved(),
            ),
            Figure::gauge("lease_keys", "Keys with allotments, now or lately.", self.keys),
            Figure::gauge(
                "lease_held_units",
                "Units of allotments that may still be spent, when last counted.",
                self.held,
            ),
            Figure::gauge(
                "lease_largest_units",
                "The most units that one key held, when last counted.",
                self.largest,
            ),
        ]
    }
}
