//! The last 15 minutes: counts of all hits by the second, of each rule by the quarter of a minute,
//! and response times of the last seconds.
//!
//! Hits only add to counters, as they do for metrics. Once a second [`Observer::tick`] notes by how
//! much the counters grew. So the history costs hits nothing, and its size depends only on the
//! number of rules.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Observer, Protocol, Spans};

/// The length of the history, in seconds.
pub const HISTORY_SECONDS: usize = 900;

/// The length of a span in the history of a rule, in seconds.
pub const RULE_SPAN: u64 = 15;

/// The number of spans in the history of a rule.
const RULE_SPANS: usize = HISTORY_SECONDS / RULE_SPAN as usize;

/// The length of time for which response times are summed up, in seconds.
const LATENCY_SECONDS: usize = 10;

/// Hits by [verdict](crate::service::Verdict), then calls that the store did not answer.
pub type Counts = [u64; 7];

/// The newest second and the counts of the last seconds, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The second of the last counts, since the Unix epoch; 0 before the first one.
    pub newest: u64,
    /// At most [`HISTORY_SECONDS`] of them.
    pub counts: VecDeque<Counts>,
}

/// Response times of one port in the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The number of requests.
    pub requests: u64,
    /// Half of the requests took at most this many microseconds; `None` without requests, and if it
    /// is more than the histogram can tell.
    pub p50: Option<u64>,
    /// 99 of 100 requests took at most this many microseconds.
    pub p99: Option<u64>,
}

/// The state behind [`Observer::history`] and [`Observer::latency`].
#[derive(Debug, Default)]
pub(super) struct Recorder(Mutex<Recorded>);

#[derive(Debug, Default)]
struct Recorded {
    history: History,
    spans: VecDeque<[[u64; Spans::BUCKETS]; 4]>,
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer {
    /// Notes the counts since the last call. `now` is in seconds since the Unix epoch; a second
    /// that was noted is not noted again.
    pub fn tick(&self, now: u64) {
        let mut recorded = self.recorder.lock();
        let missed = match recorded.history.newest {
            0 => 0,
            newest if now <= newest => return,
            newest => usize::try_from(now - newest - 1).unwrap_or(usize::MAX),
        };
        let mut counts = Counts::default();
        for rule in self.rules() {
            for (all, own) in counts.iter_mut().zip(rule.tick(now)) {
                *all += own;
            }
        }
        let history = &mut recorded.history;
        history.newest = now;
        history.counts.extend(std::iter::repeat_n(Counts::default(), missed.min(HISTORY_SECONDS)));
        history.counts.push_back(counts);
        let surplus = history.counts.len().saturating_sub(HISTORY_SECONDS);
        history.counts.drain(..surplus);
        if recorded.spans.is_empty() {
            recorded.spans.push_back(Default::default());
        }
        if recorded.spans.len() > LATENCY_SECONDS {
            recorded.spans.pop_front();
        }
        let spans = Protocol::ALL.map(|protocol| self.port(protocol).spans.buckets());
        recorded.spans.push_back(spans);
        drop(recorded);
        self.watchlist.forget_idle(now);
    }

    /// The counts of the last seconds.
    #[must_use]
    pub fn history(&self) -> History {
        self.recorder.lock().history.clone()
    }

    /// The newest second and its counts.
    #[must_use]
    pub fn newest(&self) -> (u64, Counts) {
        let recorded = self.recorder.lock();
        (recorded.history.newest, recorded.history.counts.back().copied().unwrap_or_default())
    }

    /// The response times of a port in the last seconds.
    #[must_use]
    pub fn latency(&self, protocol: Protocol) -> Latency {
        let recorded = self.recorder.lock();
        let (Some(old), Some(new)) = (recorded.spans.front(), recorded.spans.back()) else {
            return Latency::default();
        };
        let (old, new) = (&old[protocol as usize], &new[protocol as usize]);
        let mut grown = [0; Spans::BUCKETS];
        for (grown, (new, old)) in grown.iter_mut().zip(new.iter().zip(old)) {
            *grown = new.saturating_sub(*old);
        }
        let requests = grown.iter().sum();
        Latency { requests, p50: quantile(&grown, 50), p99: quantile(&grown, 99) }
    }
}

/// The upper end of the bucket in which that percentage of the requests ends, in microseconds.
fn quantile(buckets: &[u64; Spans::BUCKETS], percent: u64) -> Option<u64> {
    let requests: u64 = buckets.iter().sum();
    let wanted = (requests * percent).div_ceil(100);
    let mut below = 0;
    let index = buckets.iter().position(|count| {
        below += count;
        requests > 0 && below >= wanted
    })?;
    (index + 1 < Spans::BUCKETS).then_some(1 << index)
}

/// The history of one rule.
#[derive(Debug, Default)]
pub(super) struct RuleRecorder(Mutex<RuleRecorded>);

/// Hits of a rule in one span: passed, denied, and denied by a rule in shadow mode.
pub type RuleCounts = [u32; 3];

#[derive(Debug, Default)]
struct RuleRecorded {
    last: Counts,
    /// The number of the newest span since the Unix epoch.
    newest: u64,
    spans: VecDeque<RuleCounts>,
}

impl RuleRecorder {
    /// Notes the counts since the last call, and returns them.
    pub(super) fn tick(&self, now: u64, all: Counts) -> Counts {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut grown = all;
        for (grown, last) in grown.iter_mut().zip(recorded.last) {
            *grown = grown.saturating_sub(last);
        }
        recorded.last = all;
        if grown == Counts::default() {
            return grown;
        }
        recorded.move_to(now / RULE_SPAN);
        let [allowed, denied, shadowed, exempt, blocked, banned, _] = grown;
        let more = [allowed + exempt, denied + blocked + banned, shadowed];
        if let Some(span) = recorded.spans.back_mut() {
            for (count, more) in span.iter_mut().zip(more) {
                *count = count.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
            }
        }
        grown
    }

    /// The spans that end with the one of `now`, the oldest first; none for a rule that was not hit
    /// in that time.
    pub(super) fn spans(&self, now: u64) -> Vec<RuleCounts> {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.spans.is_empty() {
            return Vec::new();
        }
        recorded.move_to(now / RULE_SPAN);
        if recorded.spans.iter().all(|span| *span == RuleCounts::default()) {
            recorded.spans = VecDeque::new();
        }
        recorded.spans.iter().copied().collect()
    }
}

impl RuleRecorded {
    fn move_to(&mut self, number: u64) {
        let missed = match self.spans.is_empty() {
            true => RULE_SPANS,
            false => usize::try_from(number.saturating_sub(self.newest)).unwrap_or(usize::MAX),
        };
        self.newest = self.newest.max(number);
        let missed = missed.min(RULE_SPANS);
        self.spans.extend(std::iter::repeat_n(RuleCounts::default(), missed));
        let surplus = self.spans.len().saturating_sub(RULE_SPANS);
        self.spans.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::KeyRef;

    use super::*;
    use crate::observe::Scope;
    use crate::service::Verdict;

    const BEGIN: u64 = 1_700_000_010;

    fn hit(observer: &Observer, times: u64, verdict: Verdict) {
        let rule = observer.rule(Scope::Namespace(""), "api");
        (0..times).for_each(|_| observer.saw(&rule, KeyRef::plain(b"a"), verdict));
    }

    #[test]
    fn every_second_has_its_own_counts_and_a_missed_one_has_none() {
        let observer = Observer::default();
        hit(&observer, 3, Verdict::Allowed);
        observer.tick(BEGIN);
        hit(&observer, 2, Verdict::Denied);
        observer.tick(BEGIN + 3);
        observer.tick(BEGIN + 3);
        let history = observer.history();
        assert_eq!(history.newest, BEGIN + 3);
        let expected = [[3, 0, 0, 0, 0, 0, 0], [0; 7], [0; 7], [0, 2, 0, 0, 0, 0, 0]];
        assert_eq!(history.counts, expected);
        assert_eq!(observer.newest(), (BEGIN + 3, expected[3]));
    }

    #[test]
    fn the_history_is_bounded_however_long_the_server_runs_or_sleeps() {
        let observer = Observer::default();
        for second in 0..2_000 {
            hit(&observer, 1, Verdict::Allowed);
            observer.tick(BEGIN + second);
        }
        let history = observer.history();
        assert_eq!(history.counts.len(), HISTORY_SECONDS);
        assert!(history.counts.iter().all(|counts| counts[0] == 1));
        let rule = observer.rule(Scope::Namespace(""), "api");
        assert_eq!(rule.spans(BEGIN + 1_999).len(), RULE_SPANS);
        observer.tick(BEGIN + 1_000_000);
        let history = observer.history();
        assert_eq!(history.counts.len(), HISTORY_SECONDS);
        assert!(history.counts.iter().all(|counts| *counts == Counts::default()));
        assert!(rule.spans(BEGIN + 1_000_000).is_empty());
    }

    #[test]
    fn a_rule_has_spans_of_a_quarter_of_a_minute() {
        let observer = Observer::default();
        hit(&observer, 2, Verdict::Allowed);
        hit(&observer, 1, Verdict::Exempt);
        observer.tick(BEGIN);
        hit(&observer, 4, Verdict::Blocked);
        hit(&observer, 5, Verdict::Shadowed);
        observer.tick(BEGIN + RULE_SPAN);
        let spans = observer.rule(Scope::Namespace(""), "api").spans(BEGIN + 2 * RULE_SPAN);
        assert_eq!(spans.len(), RULE_SPANS);
        assert_eq!(spans[RULE_SPANS - 3..], [[3, 0, 0], [0, 4, 5], [0, 0, 0]]);
    }

    #[test]
    fn latency_is_that_of_the_last_seconds() {
        let observer = Observer::default();
        let spans = &observer.port(Protocol::Http).spans;
        let saw = |count: u64, micros| {
            (0..count).for_each(|_| spans.saw(Duration::from_micros(micros)));
        };
        observer.tick(BEGIN);
        assert_eq!(observer.latency(Protocol::Http), Latency::default());
        saw(98, 10);
        saw(2, 1_000);
        observer.tick(BEGIN + 1);
        let latency = Latency { requests: 100, p50: Some(16), p99: Some(1_024) };
        assert_eq!(observer.latency(Protocol::Http), latency);
        assert_eq!(observer.latency(Protocol::Resp), Latency::default());
        saw(1_000, 2_000_000);
        observer.tick(BEGIN + 2);
        assert_eq!(observer.latency(Protocol::Http).p50, None);
        for second in 3..20 {
            observer.tick(BEGIN + second);
        }
        assert_eq!(observer.latency(Protocol::Http), Latency::default());
    }
}
