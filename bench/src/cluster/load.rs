//! Callers, and the answers that they got.

use super::fleet::{Fleet, NODES};
use crate::Outcome;
use futures_util::future::try_join_all;
use std::collections::BTreeMap;
use std::time::Duration;
use tollgate::{Clock, Error, SystemClock, Timestamp};

/// Callers of a node under full load.
const CALLERS: usize = 16;

/// Hits in a row before other tasks run: hits that need no server never wait.
const AT_ONCE: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Even,
    /// One node has full load, the others have one hit per millisecond.
    Skewed,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) decided: u64,
    pub(crate) calls: u64,
    pub(crate) span: Duration,
    /// Hits admitted in each full second of the load.
    pub(crate) windows: Vec<u64>,
}

impl Tally {
    /// Decisions per second.
    pub(crate) fn rate(&self) -> f64 {
        self.decided as f64 / self.span.as_secs_f64()
    }

    pub(crate) fn calls_per_decision(&self) -> f64 {
        self.calls as f64 / self.decided.max(1) as f64
    }

    /// The most units that one second had beyond the limit.
    pub(crate) fn over(&self, limit: u64) -> u64 {
        self.windows.iter().map(|admitted| admitted.saturating_sub(limit)).max().unwrap_or(0)
    }

    /// The used part of the limit over all seconds.
    pub(crate) fn used(&self, limit: u64) -> f64 {
        let admitted: u64 = self.windows.iter().sum();
        admitted as f64 / (limit as f64 * self.windows.len().max(1) as f64)
    }
}

#[derive(Default)]
struct Caller {
    decided: u64,
    admitted: BTreeMap<u64, u64>,
}

/// Runs all callers for this long.
pub(crate) async fn run(fleet: &Fleet, shape: Shape, span: Duration) -> Outcome<Tally> {
    let clock = SystemClock::new();
    let (calls, begin) = (fleet.calls(), clock.now());
    let until = begin + span;
    let callers = (0..NODES).flat_map(|node| {
        let busy = shape == Shape::Even || node == 0;
        let many = if busy { CALLERS } else { 1 };
        (0..many).map(move |_| (node, busy))
    });
    let callers = callers.map(|(node, busy)| call(fleet, node, busy, clock, until));
    let callers = try_join_all(callers).await?;
    let mut admitted: BTreeMap<u64, u64> = BTreeMap::new();
    for (window, units) in callers.iter().flat_map(|caller| &caller.admitted) {
        *admitted.entry(*window).or_default() += units;
    }
    // The first and the last second had less load.
    admitted.pop_first();
    admitted.pop_last();
    Ok(Tally {
        decided: callers.iter().map(|caller| caller.decided).sum(),
        calls: fleet.calls() - calls,
        span: clock.now().since(begin),
        windows: admitted.into_values().collect(),
    })
}

async fn call(
    fleet: &Fleet,
    node: usize,
    busy: bool,
    clock: SystemClock,
    until: Timestamp,
) -> Result<Caller, Error> {
    let mut caller = Caller::default();
    while clock.now() < until {
        for _ in 0..if busy { AT_ONCE } else { 1 } {
            let answer = fleet.hit(node).await?;
            caller.decided += 1;
            if answer.allowed {
                *caller.admitted.entry(answer.window).or_default() += 1;
            }
        }
        if busy {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    Ok(caller)
}
