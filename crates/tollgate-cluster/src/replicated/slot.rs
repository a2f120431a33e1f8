//! Slots: the parts of time to which counts belong. The slot is part of the name of a count.

use std::time::Duration;

use tollgate::algorithm::{Aging, AnyMachine};
use tollgate::{Error, Limit, Timestamp};

/// About how many slots a bucket or a moving window has.
const SLOTS: u64 = 50;

/// The shortest slot of a bucket or moving window, in microseconds. Faster changes are not worth a
/// message each.
const SHORTEST: u64 = 1_000;

/// How long the counts of a bucket are kept apart at least, in microseconds, so that late messages
/// still find their slot.
const BUCKET_LIFE: u64 = 1_000_000;

/// How the slots of a limit end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The slot is the window, and does not matter after it.
    Fixed,
    /// The slot is the window, and fades in the next one.
    Sliding,
    /// The slot is a part of a period. It counts until all of it is a period old.
    Moving,
    /// The slot is a part of the time in which the bucket drains. Older slots are added to the
    /// level that they leave.
    Bucket,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Fixed, Kind::Sliding, Kind::Moving, Kind::Bucket];

    /// The kind of a limit; an error for limits whose counts do not merge.
    pub(crate) fn of(limit: &Limit) -> Result<Kind, Error> {
        let refused = |why: &str| Err(Error::unsupported(limit, why));
        if limit.charge_denied() {
            return refused(
                "replicas do not count denied hits, each would be a message; use a shared store",
            );
        }
        match AnyMachine::new(limit).aging() {
            Aging::ClockWindow => Ok(Kind::Fixed),
            Aging::FadingWindow => Ok(Kind::Sliding),
            Aging::Log => Ok(Kind::Moving),
            Aging::Bucket => Ok(Kind::Bucket),
            Aging::KeyWindow => refused(
                "a window that begins with a key's first hit begins at another time on each replica; use fixed-window, or a shared store",
            ),
            Aging::CalendarWindow => refused(
                "replicas do not agree on the edges of calendar windows; use a shared store",
            ),
            Aging::Attempts => refused(
                "every attempt pushes an elastic window, so each would be a message; use fixed-window, or a shared store",
            ),
            Aging::Never => refused(
                "replicas forget old counts, and a budget must not be forgotten; use a shared store",
            ),
            Aging::Holds => refused(
                "replicas learn of a holder too late, so more than the limit could hold units; use a shared store",
            ),
            Aging::Denials => refused(
                "a ban counts denials, and replicas do not: each would be a message; use a shared store, such as Redis",
            ),
            _ => refused("replicas do not know this algorithm; use a shared store"),
        }
    }

    /// The length of a slot of a limit, in microseconds.
    ///
    /// The slot of a bucket is a power of two, so that a small change of the quota leaves it as it
    /// is; it is between a 64th and a 32nd of the time to drain.
    pub(crate) fn span(self, limit: &Limit) -> u64 {
        let period = micros(limit.period());
        match self {
            Kind::Fixed | Kind::Sliding => period,
            Kind::Moving => (period / SLOTS).max(SHORTEST),
            Kind::Bucket => {
                let part = (drain(limit) / 32).max(1);
                (1 << part.ilog2()).max(SHORTEST)
            }
        }
    }

    /// How long after its end a slot counts, or is kept apart, in microseconds.
    pub(crate) fn life(self, span: u64) -> u64 {
        match self {
            Kind::Fixed => 0,
            Kind::Sliding => span,
            // A period is less than one slot longer than fifty of them.
            Kind::Moving => span.saturating_mul(SLOTS + 1),
            Kind::Bucket => span.saturating_mul(64).max(BUCKET_LIFE),
        }
    }

    /// How far back the units of a limit matter, in microseconds.
    pub(crate) fn reach(self, limit: &Limit) -> u64 {
        match self {
            Kind::Fixed => 0,
            Kind::Sliding | Kind::Moving => micros(limit.period()),
            Kind::Bucket => drain(limit),
        }
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1)
}

/// How long a full bucket takes to drain, in microseconds.
fn drain(limit: &Limit) -> u64 {
    let whole = u128::from(limit.burst()) * limit.period().as_micros();
    u64::try_from(whole.div_ceil(u128::from(limit.quota()))).unwrap_or(u64::MAX)
}

/// A part of time: `span` microseconds that start at a multiple of `span`. Ordered by their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    /// The number of slots of this length since the Unix epoch.
    pub(crate) number: u64,
    pub(crate) span: u64,
}

impl Slot {
    pub(crate) fn at(time: Timestamp, span: u64) -> Slot {
        let span = span.max(1);
        Slot { number: time.as_micros() / span, span }
    }

    pub(crate) fn start(self) -> Timestamp {
        Timestamp::from_micros(self.number.saturating_mul(self.span))
    }

    /// The last microsecond of the slot.
    pub(crate) fn last(self) -> Timestamp {
        Timestamp::from_micros(self.end().saturating_sub(1))
    }

    fn end(self) -> u64 {
        self.number.saturating_add(1).saturating_mul(self.span)
    }

    /// Whether its counts are no longer kept apart.
    pub(crate) fn is_dead(self, kind: Kind, now: Timestamp) -> bool {
        self.end().saturating_add(kind.life(self.span)) <= now.as_micros()
    }

    /// The time at which its units are charged in a derived state: as late as they can have been
    /// admitted, but never later than `now`. Windows are charged at their start, which places them
    /// where the clock has them.
    pub(crate) fn charged_at(self, kind: Kind, now: Timestamp) -> Timestamp {
        match kind {
            Kind::Fixed | Kind::Sliding => self.start(),
            Kind::Moving | Kind::Bucket => self.last().min(now),
        }
    }

    /// Whether its units count already. A window counts when it has begun. Units that a faster
    /// clock counted ahead in a moving window or bucket were admitted all the same.
    pub(crate) fn counts(self, kind: Kind, now: Timestamp) -> bool {
        match kind {
            Kind::Fixed | Kind::Sliding => self.start() <= now,
            Kind::Moving | Kind::Bucket => true,
        }
    }
}

impl PartialOrd for Slot {
    fn partial_cmp(&self, other: &Slot) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slot {
    fn cmp(&self, other: &Slot) -> std::cmp::Ordering {
        (self.end(), self.span).cmp(&(other.end(), other.span))
    }
}
