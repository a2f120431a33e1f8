//! When the next statement is sent on a connection, how many calls it may have, and when its answer
//! comes. Pure: the time is an argument.
//!
//! Statements are pipelined: the next one is sent before the answer to the last one has come, so
//! that a server far away is not idle for a round trip after each batch. They keep a distance in
//! time, for two reasons: calls that arrive meanwhile go as one batch, which costs the server less,
//! and calls that wait here can still be given up, which calls that were sent cannot.
//!
//! All calls of a batch wait for the whole batch, and for the batches before it. So a batch has no
//! more calls than the server decides within the deadline, at the pace of its last answers.

use std::time::Duration;

use tollgate::Timestamp;

/// The most statements that are under way on one connection.
pub(crate) const DEPTH: u32 = 4;

/// A server that answers sooner than this gets one statement at a time: batches that are twice as
/// large save it more than the short pause between them costs.
const SHORTEST_GAP: Duration = Duration::from_millis(1);

/// One slow answer must not make the estimate of the time for a call much longer: it counts for no
/// more than this factor of the estimate, and this time.
const MOST_SLOWER: u32 = 4;
const MOST_SLOWER_BY: Duration = Duration::from_micros(500);

#[derive(Debug)]
pub(crate) struct Pace {
    /// How long a caller usually waits.
    deadline: Duration,
    under_way: u32,
    calls_under_way: u32,
    last_sent: Timestamp,
    last_answered: Timestamp,
    /// Moving mean of the time between sending a statement and its answer.
    answer_time: Duration,
    /// The time of an answer to a statement with one call that waits for no other statement.
    fastest: Option<Duration>,
    /// Moving mean of the server's time for one call more in a statement.
    call_time: Duration,
    /// When the last statement under way is probably answered.
    all_answered: Timestamp,
}

impl Pace {
    pub(crate) fn new(deadline: Duration) -> Pace {
        Pace {
            deadline,
            under_way: 0,
            calls_under_way: 0,
            last_sent: Timestamp::EPOCH,
            last_answered: Timestamp::EPOCH,
            answer_time: Duration::ZERO,
            fastest: None,
            call_time: Duration::ZERO,
            all_answered: Timestamp::EPOCH,
        }
    }

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

    /// How many calls a statement may have that is sent now. Its answer should take the time halfway
    /// between the fastest answer and the deadline, because callers have waited and estimates are
    /// wrong. An idle connection always takes a call, to see whether the server is faster again.
    pub(crate) fn room(&self, now: Timestamp) -> usize {
        let fastest = self.fastest.unwrap_or_default();
        let aim = now + fastest + self.deadline.saturating_sub(fastest) / 2;
        let left = aim.since(self.answered_at(now, 0)).as_nanos();
        let room = left.checked_div(self.call_time.as_nanos()).unwrap_or(u128::MAX);
        usize::try_from(room).unwrap_or(usize::MAX).max(self.is_idle().into())
    }

    /// When a statement with this number of calls is probably answered if it is sent now.
    pub(crate) fn answered_at(&self, now: Timestamp, calls: usize) -> Timestamp {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let alone = now + self.fastest.unwrap_or_default();
        alone.max(self.all_answered) + self.call_time.saturating_mul(calls)
    }

    pub(crate) fn sent(&mut self, now: Timestamp, calls: usize) {
        self.all_answered = self.answered_at(now, calls);
        self.under_way += 1;
        self.calls_under_way += u32::try_from(calls).unwrap_or(0);
        self.last_sent = now;
    }

    /// Records that a statement has ended. The time of a statement that failed is not measured:
    /// some wait for a lock, others fail immediately.
    pub(crate) fn ended(&mut self, sent: Timestamp, now: Timestamp, calls: usize, succeeded: bool) {
        let calls = u32::try_from(calls).unwrap_or(0);
        self.under_way = self.under_way.saturating_sub(1);
        self.calls_under_way = self.calls_under_way.saturating_sub(calls);
        if succeeded && calls > 0 {
            self.measure(sent, now, calls);
        }
        self.last_answered = now;
        self.all_answered = now + self.call_time * self.calls_under_way;
    }

    fn measure(&mut self, sent: Timestamp, now: Timestamp, calls: u32) {
        let time = now.since(sent);
        self.answer_time = match self.answer_time {
            Duration::ZERO => time,
            mean => (mean * 7 + time) / 8,
        };
        let fastest = self.fastest.unwrap_or(time);
        // The server began it when it had answered the statement before it, but not before it came.
        let began = self.last_answered.max(sent + fastest);
        let most = self.call_time * MOST_SLOWER + MOST_SLOWER_BY;
        let call_time = (now.since(began) / calls).min(most);
        self.call_time = (self.call_time * 7 + call_time) / 8;
        // Only a statement that waited for no other shows that answers take longer than before.
        let one_call = time.saturating_sub(self.call_time * (calls - 1));
        let was_alone = self.last_answered <= sent;
        let rise = if was_alone { one_call.saturating_sub(fastest) / 64 } else { Duration::ZERO };
        self.fastest = Some((fastest + rise).min(one_call));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    fn pace() -> Pace {
        Pace::new(100 * MILLI)
    }

    #[test]
    fn statements_are_spread_over_the_time_of_an_answer() {
        let mut pace = pace();
        pace.sent(at(0), 1);
        pace.ended(at(0), at(20), 1, true);
        assert_eq!(pace.next_at(), Some(Timestamp::EPOCH), "nothing is under way");
        assert_eq!(pace.answered_at(at(100), 1), at(120));
        for (sent, next) in [(100, Some(at(105))), (105, Some(at(110))), (112, Some(at(117)))] {
            pace.sent(at(sent), 1);
            assert_eq!(pace.next_at(), next);
        }
        pace.sent(at(117), 1);
        assert_eq!(pace.next_at(), None, "enough are under way");
        pace.ended(at(100), at(120), 1, true);
        assert_eq!(pace.next_at(), Some(at(122)));
    }

    #[test]
    fn a_server_nearby_gets_one_statement_after_the_other() {
        let mut pace = pace();
        let half = |millis: u64| Timestamp::from_micros(millis * 1_000 + 500);
        pace.sent(at(0), 1);
        pace.ended(at(0), half(0), 1, true);
        pace.sent(at(10), 1);
        assert_eq!(pace.next_at(), Some(at(11)), "after the answer has come");
        pace.ended(at(10), half(10), 1, true);
        assert_eq!(pace.next_at(), Some(Timestamp::EPOCH));
    }

    #[test]
    fn failures_do_not_count() {
        let mut pace = pace();
        pace.sent(at(0), 1);
        pace.ended(at(0), at(8), 1, true);
        for failed_at in [90, 101] {
            pace.sent(at(100), 1);
            pace.ended(at(100), at(failed_at), 1, false);
            assert_eq!(pace.answered_at(at(200), 1), at(208));
        }
    }

    /// A server that takes a millisecond for each call, and an answer 20 ms to come. As many calls
    /// wait as a statement may have.
    #[test]
    fn batches_are_as_large_as_the_server_decides_within_the_deadline() {
        let mut pace = pace();
        pace.sent(at(0), 1);
        pace.ended(at(0), at(20), 1, true);
        let (mut now, mut free_at, mut under_way) =
            (at(20), at(20), std::collections::VecDeque::new());
        let (mut most, mut calls) = (Duration::ZERO, 0);
        while now < at(10_000) {
            now = now + MILLI;
            while let Some((sent, answer, size)) = under_way.front().copied() {
                if answer > now {
                    break;
                }
                under_way.pop_front();
                pace.ended(sent, answer, size, true);
                if now > at(2_000) {
                    most = most.max(answer.since(sent));
                    calls += size;
                }
            }
            let size = pace.room(now).min(256);
            if pace.next_at().is_some_and(|at| at <= now) && size > 0 {
                pace.sent(now, size);
                free_at = free_at.max(now + 10 * MILLI) + MILLI * u32::try_from(size).unwrap();
                under_way.push_back((now, free_at + 10 * MILLI, size));
            }
        }
        assert!(most < 100 * MILLI, "an answer took {most:?}");
        assert!(calls > 7_600, "{calls} of 8,000 calls: the server was idle");
    }

    #[test]
    fn one_slow_answer_changes_little() {
        let mut pace = pace();
        for round in 0..100 {
            pace.sent(at(round * 10), 10);
            let millis = if round == 90 { 95 } else { 5 };
            pace.ended(at(round * 10), at(round * 10 + millis), 10, true);
        }
        assert!(pace.room(at(2_000)) >= 256, "{pace:?}");
    }

    #[test]
    fn a_server_that_was_slow_gets_larger_batches_again() {
        let mut pace = pace();
        pace.sent(at(0), 1);
        pace.ended(at(0), at(15), 1, true);
        let mut now = at(15);
        for (call_time, rooms) in [(10, 1..=20), (0, 256..=usize::MAX)] {
            for _ in 0..50 {
                let calls = pace.room(now).min(256);
                pace.sent(now, calls);
                let answer = now + MILLI * (5 + call_time * u32::try_from(calls).unwrap());
                pace.ended(now, answer, calls, true);
                now = answer;
            }
            let room = pace.room(now);
            assert!(rooms.contains(&room), "{room} is not in {rooms:?}");
        }
    }
}
