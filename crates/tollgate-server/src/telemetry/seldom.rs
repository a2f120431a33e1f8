//! Limits log lines that could come by the thousand.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The least time between two lines.
const APART: Duration = Duration::from_secs(1);

/// Lets one line per second into the log, so that clients cannot fill a disk.
///
/// ```
/// use tollgate_server::telemetry::Seldom;
/// static SELDOM: Seldom = Seldom::new();
/// assert_eq!(SELDOM.may(), Some(0));
/// assert_eq!(SELDOM.may(), None);
/// ```
#[derive(Debug, Default)]
pub struct Seldom(Mutex<(Option<Instant>, u64)>);

impl Seldom {
    /// A value that has let no line pass yet.
    #[must_use]
    pub const fn new() -> Seldom {
        Seldom(Mutex::new((None, 0)))
    }

    /// `None` if the line must be dropped, else the number of lines dropped since the last one.
    pub fn may(&self) -> Option<u64> {
        self.may_at(Instant::now())
    }

    fn may_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, suppressed) = &mut *state;
        if last.is_some_and(|last| now.duration_since(last) < APART) {
            *suppressed += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_counts_those_left_out() {
        let (seldom, now) = (Seldom::new(), Instant::now());
        assert_eq!([seldom.may_at(now), seldom.may_at(now)], [Some(0), None]);
        assert_eq!(seldom.may_at(now + APART / 2), None);
        assert_eq!([seldom.may_at(now + APART), seldom.may_at(now + APART)], [Some(2), None]);
    }
}
