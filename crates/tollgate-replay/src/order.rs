//! Puts requests into the order in which they began.
//!
//! Servers write a line when a request ends, so a long request comes after shorter ones that began
//! later. A request is passed on when the log has advanced beyond it by more than the window. A
//! request that comes later than that is late, and is passed on at the time that the replay has
//! reached.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A request as limits see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hit {
    /// Microseconds since the Unix epoch.
    pub(crate) at: u64,
    /// The order of the lines, among requests of one time.
    sequence: u64,
    pub(crate) key: u32,
    pub(crate) cost: u64,
    /// The log states whole seconds only.
    pub(crate) whole_second: bool,
}

/// Requests that wait for earlier ones.
#[derive(Debug)]
pub(crate) struct Order {
    window: u64,
    waiting: BinaryHeap<Reverse<Hit>>,
    sequence: u64,
    newest: u64,
    handed_on: u64,
    late: u64,
}

impl Order {
    /// The window is in microseconds.
    pub(crate) fn new(window: u64) -> Order {
        let waiting = BinaryHeap::new();
        Order { window, waiting, sequence: 0, newest: 0, handed_on: 0, late: 0 }
    }

    /// Requests that came too late for the window.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    pub(crate) fn push(&mut self, at: u64, key: u32, cost: u64, whole_second: bool) {
        self.late += u64::from(at < self.handed_on);
        self.newest = self.newest.max(at);
        self.sequence += 1;
        let at = at.max(self.handed_on);
        let hit = Hit { at, sequence: self.sequence, key, cost, whole_second };
        self.waiting.push(Reverse(hit));
    }

    /// The next request that no earlier one can precede any more; at the `end` any request.
    pub(crate) fn pop(&mut self, end: bool) -> Option<Hit> {
        let Reverse(first) = self.waiting.peek()?;
        if !end && first.at.saturating_add(self.window) > self.newest {
            return None;
        }
        let Reverse(hit) = self.waiting.pop()?;
        self.handed_on = hit.at;
        Some(hit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(window: u64, times: &[u64]) -> (Vec<u64>, u64) {
        let (mut order, mut out) = (Order::new(window), Vec::new());
        for at in times {
            order.push(*at, 0, 1, false);
            while let Some(hit) = order.pop(false) {
                out.push(hit.at);
            }
        }
        while let Some(hit) = order.pop(true) {
            out.push(hit.at);
        }
        (out, order.late())
    }

    #[test]
    fn requests_within_the_window_are_put_in_order() {
        assert_eq!(ordered(10, &[5, 3, 9, 1, 12, 4]), (vec![1, 3, 4, 5, 9, 12], 0));
    }

    #[test]
    fn late_requests_are_counted_and_not_lost() {
        assert_eq!(ordered(2, &[10, 20, 5]), (vec![10, 10, 20], 1));
    }

    proptest::proptest! {
        #[test]
        fn the_result_is_in_order_and_complete(
            times in proptest::collection::vec(0_u64..100, 0..50),
            window in 0_u64..50,
        ) {
            let (out, _) = ordered(window, &times);
            proptest::prop_assert!(out.is_sorted());
            proptest::prop_assert_eq!(out.len(), times.len());
        }
    }
}
