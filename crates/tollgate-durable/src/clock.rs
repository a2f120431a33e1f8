//! The clock of a store.

use std::sync::Arc;

use tollgate::{Clock, SystemClock, Timestamp};

/// This machine's clock, known to the compiler because every hit reads it; or another clock.
#[derive(Clone, Debug)]
pub(crate) enum Time {
    System(SystemClock),
    Given(Arc<dyn Clock>),
}

impl Time {
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Time::System(clock) => clock.now(),
            Time::Given(clock) => clock.now(),
        }
    }
}
