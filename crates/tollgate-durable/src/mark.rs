//! What is known of a key's record in the file: how much may still be charged before the next one
//! must be there.
//!
//! A key without a record that speaks for it is *new*: it may be charged at once, and a crash
//! before its first record forgets it. A key with one is *covered* while its reserve lasts. Each
//! new record gets a reserve by how fast the last one went: about what two intervals between
//! commits need, but never more than a small part of the limit.

use std::time::Duration;

use tollgate::algorithm::{AnyMachine, AnyState};
use tollgate::{Limit, Timestamp};

use crate::record::{Record, SPEAKS_FOR};

/// How much may be reserved for a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserve {
    /// Units. Zero: everything that is charged has to be written first.
    pub(crate) most: u64,
    pub(crate) interval: Duration,
}

impl Reserve {
    pub(crate) const NOTHING: Reserve = Reserve { most: 0, interval: Duration::from_secs(1) };

    /// An eighth of what a key can take at once, or what it gets in one interval if that is more:
    /// then a crash costs it that interval.
    pub(crate) fn of(limit: &Limit, interval: Duration) -> Reserve {
        if limit.algorithm() == tollgate::Algorithm::ElasticWindow {
            return Reserve { most: 0, interval };
        }
        let capacity = AnyMachine::new(limit).capacity();
        let in_interval =
            u128::from(limit.quota()) * interval.as_micros() / limit.period().as_micros().max(1);
        let in_interval = u64::try_from(in_interval).unwrap_or(u64::MAX).min(tollgate::MAX_QUOTA);
        Reserve { most: (capacity / 8).max(in_interval), interval }
    }
}

/// What is known of a key's record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// Units charged since the last record was made.
    spent: u64,
    /// Units that may be charged before the next record is on disk, if the key is not new.
    left: u64,
    /// When the last record was made that is on disk; of a new key, when it was first seen.
    at: Timestamp,
    /// When the key was last used.
    latest: Timestamp,
    is_new: bool,
    /// Whether there may be a record in the file.
    pub(crate) on_disk: bool,
    /// Whether there surely is one, so that the next one takes its place.
    pub(crate) has_record: bool,
    pub(crate) queued: Queued,
}

/// Whether a key is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    No,
    Soon,
    /// With the batch of this number.
    Now(u64),
}

impl Mark {
    /// Of a key that has never been written.
    pub(crate) fn new(now: Timestamp) -> Mark {
        Mark {
            spent: 0,
            left: 0,
            at: now,
            latest: now,
            is_new: true,
            on_disk: false,
            has_record: false,
            queued: Queued::No,
        }
    }

    /// Of a key that was read from the file: its reserve counts as charged.
    pub(crate) fn read(record: &Record) -> Mark {
        let (on_disk, has_record) = (true, true);
        let spent = record.reserve;
        Mark { is_new: false, on_disk, has_record, spent, ..Mark::new(record.at) }
    }

    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether a charge of so many units would survive a crash, or is of a new key.
    pub(crate) fn covers(&self, units: u64, now: Timestamp) -> bool {
        // Whole microseconds: a hit has no time to spare for durations.
        const SPAN: u64 = SPEAKS_FOR.as_micros() as u64;
        let until = self.at.as_micros() + SPAN;
        self.is_new || units <= self.left && now.as_micros() <= until
    }

    /// The state was fresh before what happens now: what the file says is of no account any more.
    pub(crate) fn begin_anew(&mut self, now: Timestamp) {
        let Mark { on_disk, has_record, queued, .. } = *self;
        *self = Mark { on_disk, has_record, queued, ..Mark::new(now) };
    }

    /// Units were charged.
    pub(crate) fn charged(&mut self, units: u64, now: Timestamp) {
        self.spent = self.spent.saturating_add(units);
        self.left = self.left.saturating_sub(units);
        self.latest = self.latest.max(now);
    }

    /// The state was replaced: no reserve speaks for it.
    pub(crate) fn replaced(&mut self, now: Timestamp) {
        self.left = 0;
        self.latest = self.latest.max(now);
    }

    /// Whether half of the reserve is gone: time for the next.
    pub(crate) fn runs_low(&self) -> bool {
        !self.is_new && self.spent > self.left
    }

    /// Whether what was charged is not on disk, although the key is not new: it was charged while
    /// its first record was on its way, or by attempts that were refused.
    pub(crate) fn has_outrun(&self) -> bool {
        !self.is_new && self.spent > 0 && self.left == 0
    }

    /// Whether the record on disk holds a reserve.
    pub(crate) fn holds_a_reserve(&self) -> bool {
        !self.is_new && self.left.saturating_add(self.spent) > 0
    }

    /// The record to write now. Until it is on disk both it and the one before must cover what is
    /// charged.
    pub(crate) fn record(&mut self, state: &AnyState, reserve: Reserve) -> Record {
        let units = self.reserve(reserve).min(reserve.most);
        self.left = self.left.min(units);
        self.spent = 0;
        self.on_disk = true;
        Record { at: self.latest, reserve: units, state: state.clone() }
    }

    fn reserve(&self, Reserve { interval, .. }: Reserve) -> u64 {
        if self.is_new {
            return self.spent;
        }
        // At most four times what was spent, so that a key in a hurry gets twice the reserve of
        // which half is gone, and not more for a burst.
        let elapsed = self.latest.since(self.at).max(interval / 2).as_micros().max(1);
        let wanted = u128::from(self.spent) * 2 * interval.as_micros() / elapsed;
        u64::try_from(wanted).unwrap_or(u64::MAX)
    }

    /// The last record that was made is on disk, with this time and reserve.
    pub(crate) fn written(&mut self, at: Timestamp, reserve: u64) {
        self.at = at;
        let in_time = self.latest <= at + SPEAKS_FOR;
        self.left = if in_time { reserve.saturating_sub(self.spent) } else { 0 };
        self.is_new = false;
        self.has_record = true;
    }

    /// There is no record of the key any more.
    pub(crate) fn taken_out(&mut self) {
        self.on_disk = false;
        self.has_record = false;
    }
}
