//! Puts requests into the order in which they began.
//!
//! Servers write a line when a request ends, so a long request stands behind shorter ones that
//! began after it. Requests wait in buckets of a second. A bucket is sorted and handed on when the
//! log has gone on for longer than the window. A request that comes later than that is late, and is
//! handed on at the time that the replay has reached.

use std::collections::{BTreeMap, VecDeque};

/// A request as limits see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Microseconds since the Unix epoch.
    pub(crate) at: u64,
    /// How many microseconds later the request began if those of its second were spread evenly.
    pub(crate) spread: u32,
    pub(crate) key: u32,
    pub(crate) cost: u64,
    /// The line of the log, and which log.
    pub(crate) line: u64,
    pub(crate) log: u32,
}

/// The most requests that wait: with a million keys, ten gigabytes of log take less than 300 MB.
const MOST_WAITING: usize = 1_500_000;

const SECOND: u64 = 1_000_000;

/// Requests that wait for earlier ones.
#[derive(Debug)]
pub(crate) struct Order {
    window: u64,
    most_waiting: usize,
    waiting: usize,
    /// The waiting requests by second.
    buckets: BTreeMap<u64, Vec<Hit>>,
    /// The bucket that is being handed on, in order.
    ready: std::vec::IntoIter<Hit>,
    /// Requests whose bucket was already handed on.
    overdue: VecDeque<Hit>,
    /// The buckets of the seconds before this one were already handed on.
    open_from: u64,
    newest: u64,
    handed_on: u64,
    late: u64,
    shortened: bool,
}

impl Order {
    /// The window is in microseconds.
    pub(crate) fn new(window: u64) -> Order {
        Order {
            window,
            most_waiting: MOST_WAITING,
            waiting: 0,
            buckets: BTreeMap::new(),
            ready: Vec::new().into_iter(),
            overdue: VecDeque::new(),
            open_from: 0,
            newest: 0,
            handed_on: 0,
            late: 0,
            shortened: false,
        }
    }

    /// Requests that came too late for the window.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// Whether requests were handed on before the window was over, because too many waited.
    pub(crate) fn shortened(&self) -> bool {
        self.shortened
    }

    pub(crate) fn push(&mut self, hit: Hit) {
        self.newest = self.newest.max(hit.at);
        let second = hit.at / SECOND;
        if second < self.open_from {
            self.late += u64::from(hit.at < self.handed_on);
            self.overdue.push_back(hit);
            return;
        }
        self.waiting += 1;
        // Almost all requests belong to the newest second.
        match self.buckets.last_entry() {
            Some(mut last) if *last.key() == second => last.get_mut().push(hit),
            _ => self.buckets.entry(second).or_default().push(hit),
        }
    }

    /// The next request that no earlier one can precede any more; at the `end` any request.
    pub(crate) fn pop(&mut self, end: bool) -> Option<Hit> {
        loop {
            if let Some(hit) = self.ready.next() {
                self.handed_on = hit.at;
                return Some(hit);
            }
            if let Some(mut hit) = self.overdue.pop_front() {
                hit.at = hit.at.max(self.handed_on);
                self.handed_on = hit.at;
                return Some(hit);
            }
            let first = self.buckets.first_entry()?;
            let after = first.key() + 1;
            let is_over = after.saturating_mul(SECOND).saturating_add(self.window) <= self.newest;
            let is_full = self.waiting > self.most_waiting;
            if !end && !is_over && !is_full {
                return None;
            }
            self.shortened |= is_full && !is_over && !end;
            let mut bucket = first.remove();
            self.waiting -= bucket.len();
            self.open_from = after;
            // A stable sort: requests of one time stay in the order of their lines.
            bucket.sort_by_key(|hit| hit.at);
            self.ready = bucket.into_iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(seconds: u64) -> Hit {
        Hit { at: seconds * SECOND, spread: 0, key: 0, cost: 1, line: seconds, log: 0 }
    }

    fn ordered(mut order: Order, times: &[u64]) -> (Vec<u64>, u64) {
        let mut out = Vec::new();
        for at in times {
            order.push(hit(*at));
            while let Some(hit) = order.pop(false) {
                out.push(hit.at / SECOND);
            }
        }
        while let Some(hit) = order.pop(true) {
            out.push(hit.at / SECOND);
        }
        (out, order.late())
    }

    #[test]
    fn requests_within_the_window_are_put_in_order() {
        let order = Order::new(10 * SECOND);
        assert_eq!(ordered(order, &[5, 3, 9, 1, 12, 4]), (vec![1, 3, 4, 5, 9, 12], 0));
    }

    #[test]
    fn late_requests_are_counted_and_not_lost() {
        assert_eq!(ordered(Order::new(2 * SECOND), &[10, 20, 5]), (vec![10, 10, 20], 1));
    }

    #[test]
    fn too_many_waiting_requests_shorten_the_window() {
        let mut order = Order::new(1_000 * SECOND);
        order.most_waiting = 3;
        [1, 2, 3].into_iter().for_each(|at| order.push(hit(at)));
        assert_eq!(order.pop(false), None);
        order.push(hit(4));
        assert_eq!(order.pop(false), Some(hit(1)));
        assert_eq!(order.pop(false), None);
        assert!(order.shortened());
    }

    proptest::proptest! {
        #[test]
        fn the_result_is_in_order_and_complete(
            times in proptest::collection::vec(0_u64..100, 0..50),
            window in 0_u64..50,
        ) {
            let (out, late) = ordered(Order::new(window * SECOND), &times);
            proptest::prop_assert!(out.is_sorted());
            proptest::prop_assert_eq!(out.len(), times.len());
            // Nothing is late if no request is more than the window behind an earlier line.
            let behind = |index: usize| times[..index].iter().max().is_some_and(|max| times[index] + window < *max);
            if !(0..times.len()).any(behind) {
                proptest::prop_assert_eq!(late, 0);
            }
        }
    }
}
