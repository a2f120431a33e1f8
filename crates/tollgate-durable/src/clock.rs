//! Whose time it is.

use std::sync::Arc;

use tollgate::{Clock, SystemClock, Timestamp};

/// This machine's clock, known as such when the code is compiled because every hit reads it; or
/// another one.
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
