//! The in-process stores hold every rule.

use std::time::Duration;

use tollgate::shared::{AnyStore, Guard, InProcess, SharedStore};
use tollgate::{Algorithm, Atomic, Limit, ManualClock, Memory, Timestamp};
use tollgate_testkit::{OneStore, Subject, conformance};

/// The time that the rules begin at, on a clock that stands still: what is given is the only time.
fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_micros(1_790_000_000_000_000))
}

/// The rules let the time go back. Who cleans at a time ahead remembers that it was there, so the
/// suite runs without cleaning.
const NEVER: Duration = Duration::MAX;

conformance!(memory, || {
    OneStore::new(InProcess::new(Memory::builder().clean_period(NEVER).build()))
});
conformance!(memory_with_remembered_denials, || {
    let memory = Memory::builder().clock(clock()).clean_period(NEVER).build();
    OneStore::new(InProcess::with_guard(memory, Guard::default()))
});
conformance!(memory_chosen_at_run_time, || {
    let memory = Memory::builder().clean_period(NEVER).build();
    OneStore::new(AnyStore::new(InProcess::new(memory)))
});

/// Its states are of a fixed size: a log has no place there, and counts are sure to be exact up to
/// sixteen times the capacity.
struct OnAtomic(InProcess<Atomic<ManualClock>>);

impl Subject for OnAtomic {
    type Store = InProcess<Atomic<ManualClock>>;

    fn store(&self) -> Self::Store {
        self.0.clone()
    }

    fn refuses(&self, limit: &Limit) -> bool {
        let too_large = || self.0.prepare("", limit).is_err();
        limit.algorithm() == Algorithm::MovingWindow || too_large()
    }

    fn counts_to(&self, limit: &Limit) -> u64 {
        limit.burst().saturating_mul(16)
    }
}

conformance!(atomic, || OnAtomic(InProcess::new(
    Atomic::builder().clock(clock()).clean_period(NEVER).build()
)));
