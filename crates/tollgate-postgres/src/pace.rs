//! When the next statement is sent on a connection, and when its answer comes. Pure: the time is an
//! argument.
//!
//! Statements are pipelined: the next one is sent before the answer to the last one has come, so
//! that a server far away is not idle for a round trip after each batch. They keep a distance in
//! time, for two reasons: calls that arrive meanwhile go as one batch, which costs the server less,
//! and calls that wait here can still be given up, which calls that were sent cannot.

use std::time::Duration;

use tollgate::Timestamp;

/// Statements under way on one connection.
pub(crate) const DEPTH: u32 = 4;

/// A server that answers sooner than this gets one statement at a time: batches that are twice as
/// large save it more than the short pause between them costs.
const SHORTEST_GAP: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(crate) struct Pace {
    under_way: u32,
    last_sent: Timestamp,
    /// Moving mean of the time between sending a statement and its answer.
    answer_time: Duration,
}

impl Pace {
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// When the next statement may be sent. `None`: not before an answer.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        match self.under_way {
            0 => Some(Timestamp::EPOCH),
            1..DEPTH => Some(self.last_sent + (self.answer_time / DEPTH).max(SHORTEST_GAP)),
            _ => None,
        }
    }

    /// When a statement that is sent now is probably answered.
    pub(crate) fn answered_at(&self, now: Timestamp) -> Timestamp {
        now + self.answer_time
    }

    pub(crate) fn sent(&mut self, now: Timestamp) {
        self.under_way += 1;
        self.last_sent = now;
    }

    /// `answered_after` is how long the answer took, if the statement succeeded. Statements that
    /// failed do not count: some wait for a lock, others fail immediately.
    pub(crate) fn ended(&mut self, answered_after: Option<Duration>) {
        self.under_way = self.under_way.saturating_sub(1);
        let Some(time) = answered_after else { return };
        self.answer_time = match self.answer_time {
            Duration::ZERO => time,
            mean => (mean * 7 + time) / 8,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    #[test]
    fn statements_are_spread_over_the_time_of_an_answer() {
        let mut pace = Pace::default();
        pace.sent(at(0));
        pace.ended(Some(20 * MILLI));
        assert_eq!(pace.next_at(), Some(Timestamp::EPOCH), "nothing is under way");
        assert_eq!(pace.answered_at(at(100)), at(120));
        for (sent, next) in [(100, Some(at(105))), (105, Some(at(110))), (112, Some(at(117)))] {
            pace.sent(at(sent));
            assert_eq!(pace.next_at(), next);
        }
        pace.sent(at(117));
        assert_eq!(pace.next_at(), None, "enough are under way");
        pace.ended(Some(20 * MILLI));
        assert_eq!(pace.next_at(), Some(at(122)));
    }

    #[test]
    fn a_server_nearby_gets_one_statement_after_the_other() {
        let mut pace = Pace::default();
        pace.sent(at(0));
        pace.ended(Some(MILLI / 2));
        pace.sent(at(10));
        assert_eq!(pace.next_at(), Some(at(11)), "after the answer has come");
        pace.ended(Some(MILLI / 2));
        assert_eq!(pace.next_at(), Some(Timestamp::EPOCH));
    }

    #[test]
    fn the_time_of_an_answer_follows_slowly_and_failures_do_not_count() {
        let mut pace = Pace::default();
        for (took, mean) in [(Some(8), 8_000), (Some(16), 9_000), (None, 9_000), (Some(1), 8_000)] {
            pace.sent(at(0));
            pace.ended(took.map(Duration::from_millis));
            assert_eq!(pace.answered_at(at(0)), Timestamp::from_micros(mean));
        }
    }
}
