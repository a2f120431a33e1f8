//! The in-process stores obey every rule.

use std::time::Duration;

use tollgate::shared::{AnyStore, Guard, InProcess, SharedStore};
use tollgate::{Algorithm, Atomic, Limit, ManualClock, Memory, Timestamp};
use tollgate_testkit::{OneStore, Subject, conformance};

/// A clock that stands still at the start time of the rules, so that only passed times count.
fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_micros(1_790_000_000_000_000))
}

/// The rules let the time go back. A clean at a later time would be remembered, so the suite runs
/// without cleaning.
const NEVER: Duration = Duration::MAX;

conformance!(
    memory,
    || { OneStore::new(InProcess::new(Memory::builder().clean_period(NEVER).build())) },
    holds
);
conformance!(
    memory_with_remembered_denials,
    || {
        let memory = Memory::builder().clock(clock()).clean_period(NEVER).build();
        OneStore::new(InProcess::with_guard(memory, Guard::builder()))
    },
    holds
);
conformance!(
    memory_chosen_at_run_time,
    || {
        let memory = Memory::builder().clean_period(NEVER).build();
        OneStore::new(AnyStore::new(InProcess::new(memory)))
    },
    holds
);

/// States have a fixed size: logs are not supported, and counts are exact at least up to sixteen
/// times the capacity.
struct OnAtomic(InProcess<Atomic<ManualClock>>);

impl Subject for OnAtomic {
    type Store = InProcess<Atomic<ManualClock>>;

    fn store(&self) -> Self::Store {
        self.0.clone()
    }

    fn refuses(&self, limit: &Limit) -> bool {
        let too_large = || self.0.prepare("", limit).is_err();
        limit.algorithm() == Algorithm::MovingWindow || limit.is_ban() || too_large()
    }

    fn counts_to(&self, limit: &Limit) -> u64 {
        limit.burst().saturating_mul(16)
    }
}

conformance!(atomic, || OnAtomic(InProcess::new(
    Atomic::builder().clock(clock()).clean_period(NEVER).build()
)));
