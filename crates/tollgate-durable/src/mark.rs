//! The part of a key's record in the file that memory keeps: how many units may be charged before
//! the next record must be on disk.
//!
//! A key without a valid record is *new*: it may be charged immediately, and a crash before its
//! first record forgets it. A key with one is *covered* while its reserve lasts. The reserve of
//! each new record follows from how fast the last one was used: about what two intervals between
//! commits need, but never more than a small part of the limit.

use std::time::Duration;

use tollgate::algorithm::{Aging, AnyMachine, AnyState};
use tollgate::{Limit, Timestamp};

use crate::record::{Record, SPEAKS_FOR};

/// The bound on the reserve of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserve {
    /// Units. Zero: every charge must be written first.
    pub(crate) most: u64,
    pub(crate) interval: Duration,
}

impl Reserve {
    pub(crate) const NOTHING: Reserve = Reserve { most: 0, interval: Duration::from_secs(1) };

    /// An eighth of what a key can take at one instant, or what it gets in one interval if that is
    /// more: then a crash costs it that interval.
    pub(crate) fn of(limit: &Limit, interval: Duration) -> Reserve {
        // The units of a budget never come back, so a crash must not use up a reserve.
        if matches!(AnyMachine::new(limit).aging(), Aging::Attempts | Aging::Never) {
            return Reserve { most: 0, interval };
        }
        let capacity = AnyMachine::new(limit).capacity();
        let in_interval =
            u128::from(limit.quota()) * interval.as_micros() / limit.period().as_micros().max(1);
        let in_interval = u64::try_from(in_interval).unwrap_or(u64::MAX).min(tollgate::MAX_QUOTA);
        Reserve { most: (capacity / 8).max(in_interval), interval }
    }
}

/// The state of a key's record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// Units charged since the last record was made.
    spent: u64,
    /// Units that may be charged before the next record is on disk, if the key is not new.
    left: u64,
    /// When the last record on disk was made; of a new key, when it was first used.
    at: Timestamp,
    /// When the key was last used.
    latest: Timestamp,
    is_new: bool,
    /// Whether there may be a record in the file.
    pub(crate) on_disk: bool,
    /// Whether there is surely one, so that the next record replaces it.
    pub(crate) has_record: bool,
    pub(crate) queued: Queued,
}

/// Whether a key is queued for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    No,
    Soon,
    /// The key is in the batch of this number.
    Now(u64),
}

impl Mark {
    /// The mark of a key that has never been written.
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

    /// The mark of a key that was read from the file: its reserve counts as charged.
    pub(crate) fn read(record: &Record) -> Mark {
        let (on_disk, has_record) = (true, true);
        let spent = record.reserve;
        Mark { is_new: false, on_disk, has_record, spent, ..Mark::new(record.at) }
    }

    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether a charge of this many units would survive a crash, or the key is new.
    pub(crate) fn covers(&self, units: u64, now: Timestamp) -> bool {
        // Whole microseconds, because durations would slow down each hit.
        const SPAN: u64 = SPEAKS_FOR.as_micros() as u64;
        let until = self.at.as_micros() + SPAN;
        self.is_new || units <= self.left && now.as_micros() <= until
    }

    /// The state was fresh before this operation, so the record does not matter any more.
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

    /// The state was replaced: no reserve is valid.
    pub(crate) fn replaced(&mut self, now: Timestamp) {
        self.left = 0;
        self.latest = self.latest.max(now);
    }

    /// Whether half of the reserve is used, so that the next record is due.
    pub(crate) fn runs_low(&self) -> bool {
        !self.is_new && self.spent > self.left
    }

    /// Whether charged units are not on disk although the key is not new: they were charged while
    /// its first record was queued, or by denied attempts.
    pub(crate) fn has_outrun(&self) -> bool {
        !self.is_new && self.spent > 0 && self.left == 0
    }

    /// Whether the record on disk holds a reserve.
    pub(crate) fn holds_a_reserve(&self) -> bool {
        !self.is_new && self.left.saturating_add(self.spent) > 0
    }

    /// The next record. Until it is on disk, both it and the previous one must cover what is
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
        // The elapsed time counts as at least half an interval, so the reserve is at most four
        // times what was spent: a fast key, of whose reserve half is used, gets twice the reserve,
        // and a burst does not get more.
        let elapsed = self.latest.since(self.at).max(interval / 2).as_micros().max(1);
        let wanted = u128::from(self.spent) * 2 * interval.as_micros() / elapsed;
        u64::try_from(wanted).unwrap_or(u64::MAX)
    }

    /// Notes that the last record is on disk, with this time and reserve.
    pub(crate) fn written(&mut self, at: Timestamp, reserve: u64) {
        self.at = at;
        let in_time = self.latest <= at + SPEAKS_FOR;
        self.left = if in_time { reserve.saturating_sub(self.spent) } else { 0 };
        self.is_new = false;
        self.has_record = true;
    }

    /// The record was deleted.
    pub(crate) fn taken_out(&mut self) {
        self.on_disk = false;
        self.has_record = false;
    }
}
