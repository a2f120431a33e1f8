//! Bounds the calls in progress to the number that the store answers within the deadline. It reads
//! no clock: the time is an argument.
//!
//! Without a bound, calls that the store cannot answer immediately wait in the store, in a socket
//! or in its client. If they wait longer than the deadline, their callers time out before the calls
//! are executed. Then the store charges hits whose decisions no caller receives, and hardly any
//! call is answered in time.
//!
//! A store that is always busy has `rate * wait` calls in progress if each takes `wait` (Little's
//! law). An answer should take the time halfway between the fastest answer and the deadline, and
//! the bound is the number of calls that the store answers in that time. The bound is adjusted in
//! rounds:
//!
//! - Initially, and again some time after an overload, there is no bound.
//! - The bound falls if calls of a round were late, or if two rounds in a row ended with more calls
//!   in progress than the store would answer within the deadline at its current rate.
//! - The bound rises as long as calls hardly wait for each other. So it adapts to a store that has
//!   become faster.
//! - Calls whose callers have timed out still delay other calls. They count until a call that was
//!   sent after them is answered.
//!
//! Calls beyond the bound fail immediately, and are certainly not executed.

use crate::time::Timestamp;

/// The initial bound. It has no effect, because there are never that many calls in progress.
const UNBOUNDED: u32 = 1 << 20;

/// The number of calls that may always be in progress, because their answers show whether the store
/// has recovered.
const LEAST: u32 = 2;

/// A round is late if it had more than one late call for this many answers.
const LATE_ONE_OF: u64 = 64;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The store answered.
    Answered,
    /// There was no answer before the deadline.
    Late,
    /// The call ended in another way: the caller stopped waiting, or the store was not reached.
    Other,
}

/// The calls in progress on one lane (a part of the store that fails as a whole), and the bound on
/// them.
#[derive(Debug)]
pub(crate) struct Load {
    bound: u32,
    in_progress: u32,
    /// The number of calls whose callers have timed out, but which the store may still execute, and
    /// the time at which the last of them was sent.
    left_behind: u32,
    last_left_behind: Timestamp,
    /// The number of calls that the store has recently answered in the time that an answer should
    /// take.
    capacity: u32,
    /// The time at which the bound was lowered, and whether the store still works on earlier calls.
    /// Those calls, and calls that wait behind them, do not show the effect of the new bound.
    lowered: Timestamp,
    drains: bool,
    /// Whether the last round ended with more calls in progress than the store answers within the
    /// deadline.
    too_many: bool,
    /// The time at which the bound was raised. Answers show the effect only some time later.
    raised: Timestamp,
    /// The time of the fastest answer in the last rounds, in microseconds.
    fastest: Option<u64>,
    round: Round,
}

/// The measurements of the current round.
#[derive(Debug, Default)]
struct Round {
    began: Option<Timestamp>,
    answered: u64,
    late: u64,
    /// The sum of the times of all answers and the shortest of them, in microseconds.
    waited: u64,
    fastest: Option<u64>,
    /// Whether a call has ended that was sent after the bound was lowered.
    shows_bound: bool,
}

impl Load {
    pub(crate) fn new() -> Load {
        let round = Round::default();
        Load {
            bound: UNBOUNDED,
            in_progress: 0,
            left_behind: 0,
            last_left_behind: Timestamp::EPOCH,
            capacity: 0,
            lowered: Timestamp::EPOCH,
            drains: false,
            too_many: false,
            raised: Timestamp::EPOCH,
            fastest: None,
            round,
        }
    }

    /// Counts one more call, unless the bound is reached. The error is the bound.
    pub(crate) fn enter(&mut self) -> Result<(), u32> {
        let in_store = self.in_progress.saturating_add(self.left_behind);
        if in_store >= self.bound && self.in_progress >= LEAST {
            return Err(self.bound);
        }
        self.enter_anyway();
        Ok(())
    }

    /// Counts one more call, even if the bound is reached.
    pub(crate) fn enter_anyway(&mut self) {
        self.in_progress += 1;
    }

    /// Records the end of a call. `deadline` is the time that a call may usually take, in
    /// microseconds.
    pub(crate) fn leave(&mut self, deadline: u64, entered: Timestamp, now: Timestamp, end: End) {
        self.in_progress = self.in_progress.saturating_sub(1);
        let wait = micros_since(now, entered);
        if end == End::Answered && entered >= self.lowered && self.drains {
            self.drains = false;
            self.lowered = now;
        }
        let shows_bound = !self.drains && entered >= self.lowered;
        let round = &mut self.round;
        round.shows_bound |= shows_bound;
        match end {
            End::Answered => {
                round.answered += 1;
                round.waited = round.waited.saturating_add(wait);
                round.fastest = Some(round.fastest.map_or(wait, |fastest| fastest.min(wait)));
                if entered >= self.last_left_behind {
                    self.left_behind = 0;
                }
            }
            End::Late => {
                round.late += u64::from(shows_bound);
                self.left_behind = self.left_behind.saturating_add(1);
                self.last_left_behind = self.last_left_behind.max(entered);
            }
            End::Other => {}
        }
        let began = *round.began.get_or_insert(entered);
        let fastest = self.fastest.unwrap_or(0);
        let target = (deadline / 2).saturating_add(fastest / 2).min(deadline / 4 * 3).max(1);
        let lasted = micros_since(now, began);
        // A round lasts at least as long as one answer takes. Otherwise it lasts a quarter of the
        // time that an answer should take.
        if lasted >= (target / 4).max(fastest.saturating_add(fastest / 4)).min(target) {
            self.end_round(deadline, target, began, now);
            self.round = Round { began: Some(now), ..Round::default() };
        }
    }

    fn end_round(&mut self, deadline: u64, target: u64, began: Timestamp, now: Timestamp) {
        let Round { answered, late, waited, fastest: fastest_now, shows_bound, .. } = self.round;
        if !shows_bound {
            return;
        }
        let lasted = micros_since(now, began).max(1);
        // The number of calls that the store answers in the time that an answer should take.
        let in_time = u128::from(answered) * u128::from(target) / u128::from(lasted);
        let in_time = u32::try_from(in_time).unwrap_or(u32::MAX);
        let fastest = self.fastest.unwrap_or(0);
        let room = target.saturating_sub(fastest);
        let mean = waited.checked_div(answered);
        let queue = mean.map(|mean| mean.saturating_sub(fastest));
        // There are too many calls if those in progress would take longer than the deadline at this
        // rate. This only counts if calls wait for each other, and not for a burst of calls after a
        // pause.
        let too_many = queue.is_some_and(|queue| queue > room / 2)
            && u128::from(self.in_progress) * u128::from(lasted)
                > u128::from(answered) * u128::from(deadline);
        let too_many_again = std::mem::replace(&mut self.too_many, too_many) && too_many;
        if too_many_again || late * LATE_ONE_OF > answered {
            self.update_capacity(in_time);
            self.bound = self.bound.min(self.capacity.max(in_time).max(LEAST));
            self.capacity /= 2;
            self.lowered = now;
            self.drains = true;
        } else if let Some(queue) = queue {
            self.update_capacity(in_time);
            if queue <= room / 2 && micros_since(began, self.raised) >= target {
                // The bound rises quickly up to the known capacity of the store, and then slowly.
                let known = self.capacity.min(self.bound * 2);
                self.bound = (self.bound + self.bound / 8 + 1).max(known).min(UNBOUNDED);
                self.raised = now;
            }
        }
        if let Some(fastest) = fastest_now {
            // An overloaded store has no fast answers, so the fastest time rises only slowly.
            let rise = |before: u64| before + fastest.saturating_sub(before) / 64;
            self.fastest = Some(self.fastest.map_or(fastest, |before| rise(before).min(fastest)));
        }
    }
}

impl Load {
    /// Updates the capacity with a measurement. A higher value counts for half, a lower value only
    /// for a sixteenth, because fewer calls may have been made.
    fn update_capacity(&mut self, answered: u32) {
        self.capacity = match answered.checked_sub(self.capacity) {
            Some(more) => self.capacity + more.div_ceil(2),
            None => self.capacity - (self.capacity - answered) / 16,
        };
    }
}

fn micros_since(now: Timestamp, then: Timestamp) -> u64 {
    now.as_micros().saturating_sub(then.as_micros())
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const MILLI: u64 = 1_000;

    /// A simulated store that executes calls one after the other, behind a network delay, and
    /// callers that call one after the other and give up at their deadline.
    struct World {
        load: Load,
        deadline: u64,
        /// The round-trip time of the network, in microseconds.
        distance: u64,
        /// The time that the store needs for a call, in microseconds.
        work: u64,
        free_at: u64,
        /// The additional time that the store needs for a batch of calls, the shortest time between
        /// two batches, and the time at which the last batch was sent. With zeros each call is sent
        /// alone.
        batch_work: u64,
        batch_gap: u64,
        last_batch: u64,
        /// The calls in progress: the time at which each was made, and the time of its answer.
        calls: VecDeque<(u64, u64)>,
        now: u64,
    }

    #[derive(Debug, Default)]
    struct Count {
        answered: u64,
        late: u64,
        refused: u64,
    }

    impl World {
        fn new(deadline: u64, distance: u64, work: u64) -> World {
            World {
                load: Load::new(),
                deadline,
                distance,
                work,
                free_at: 0,
                batch_work: 0,
                batch_gap: 0,
                last_batch: 0,
                calls: VecDeque::new(),
                now: 0,
            }
        }

        /// Makes one call every `pause` microseconds, for `span` microseconds.
        fn offer(&mut self, span: u64, pause: u64) -> Count {
            let (mut count, end) = (Count::default(), self.now + span);
            while self.now < end {
                self.now += pause;
                self.end_calls(&mut count);
                if self.load.enter().is_err() {
                    count.refused += 1;
                    continue;
                }
                if self.now > self.last_batch {
                    self.last_batch = self.now.max(self.last_batch + self.batch_gap);
                    self.free_at = self.free_at.max(self.last_batch + self.distance / 2);
                    self.free_at += self.batch_work;
                }
                self.free_at += self.work;
                self.calls.push_back((self.now, self.free_at + self.distance / 2));
            }
            count
        }

        fn end_calls(&mut self, count: &mut Count) {
            while let Some((entered, answer)) = self.calls.front().copied() {
                let leaves = entered + self.deadline;
                let (at, end) =
                    if answer < leaves { (answer, End::Answered) } else { (leaves, End::Late) };
                if at > self.now {
                    return;
                }
                self.calls.pop_front();
                match end {
                    End::Answered => count.answered += 1,
                    _ => count.late += 1,
                }
                let [entered, at] = [entered, at].map(Timestamp::from_micros);
                self.load.leave(self.deadline, entered, at, end);
            }
        }
    }

    #[test]
    fn at_twice_its_capacity_a_store_still_answers_nearly_as_many_calls_as_it_can() {
        // The store answers 10,000 calls per second.
        for (deadline, distance) in
            [(60, 20), (60, 0), (60, 40), (5, 0), (5, 2), (100, 1), (250, 20)]
        {
            let mut world = World::new(deadline * MILLI, distance * MILLI, 100);
            let seconds = 4 * deadline.max(250) * MILLI;
            let busy = world.offer(seconds, 50);
            let all = seconds / 100;
            let figures = format!(
                "deadline {deadline} ms, round trip {distance} ms: {busy:?} of {all} calls"
            );
            // First the right bound must be found, which takes some time if the network delay is
            // almost as long as the deadline.
            assert!(busy.answered >= all * 3 / 10, "{figures}");
            assert!(busy.late <= all / 4, "{figures}");
            let later = world.offer(seconds, 50);
            assert!(
                later.answered >= all * 9 / 10,
                "deadline {deadline} ms, round trip {distance} ms: {later:?} of {all} calls"
            );
            assert!(
                later.late <= all / 50,
                "deadline {deadline} ms, round trip {distance} ms: {later:?} of {all} calls"
            );
        }
    }

    #[test]
    fn at_twice_its_capacity_a_batching_store_still_answers_nearly_as_many_calls_as_it_can() {
        // The store answers almost 20,000 calls per second. A call waits until its batch is sent,
        // even if there are few calls.
        for batch_gap in [5, 10, 15] {
            let mut world = World::new(60 * MILLI, 20 * MILLI, 50);
            (world.batch_work, world.batch_gap) = (200, batch_gap * MILLI);
            // The store is interrupted several times, which makes calls late, but afterwards it is
            // as fast as before.
            for _ in 0..4 {
                world.free_at = world.now + 70 * MILLI;
                world.offer(100 * MILLI, 60);
            }
            world.offer(2_000 * MILLI, 60);
            let below = world.offer(1_000 * MILLI, 60);
            assert_eq!(below.refused, 0, "{batch_gap} ms: {below:?}");
            world.offer(1_000 * MILLI, 25);
            let overload = world.offer(2_000 * MILLI, 25);
            assert!(overload.answered >= 36_000, "{batch_gap} ms: {overload:?} of 40,000");
            assert!(overload.late <= 800, "{batch_gap} ms: {overload:?} of 40,000");
        }
    }

    #[test]
    fn no_call_is_refused_below_the_capacity_of_the_store() {
        let mut world = World::new(60 * MILLI, 20 * MILLI, 100);
        assert_eq!(world.offer(2_000 * MILLI, 110).refused, 0);
        world.offer(2_000 * MILLI, 50);
        world.offer(500 * MILLI, 200);
        assert_eq!(world.offer(2_000 * MILLI, 110).refused, 0, "the bound has risen again");
    }

    #[test]
    fn soon_after_a_short_interruption_no_call_is_refused() {
        let mut world = World::new(60 * MILLI, 20 * MILLI, 100);
        world.offer(500 * MILLI, 200);
        world.free_at = world.now + 70 * MILLI;
        let count = world.offer(200 * MILLI, 200);
        assert!(count.late > 0 && count.refused <= count.late, "{count:?}");
        assert_eq!(world.offer(500 * MILLI, 200).refused, 0);
    }

    #[test]
    fn the_bound_follows_a_store_that_becomes_slower_and_then_faster() {
        let mut world = World::new(60 * MILLI, 20 * MILLI, 100);
        world.offer(500 * MILLI, 50);
        world.work = 1_000;
        world.offer(1_500 * MILLI, 50);
        let slow = world.offer(2_000 * MILLI, 50);
        assert!(slow.answered >= 1_800, "{slow:?} of 2,000");
        assert!(slow.late <= 40, "{slow:?} of 2,000");
        world.work = 100;
        world.offer(1_000 * MILLI, 50);
        let fast = world.offer(1_000 * MILLI, 50);
        assert!(fast.answered >= 9_000, "{fast:?} of 10,000");
    }

    #[test]
    fn soon_after_an_outage_no_call_is_refused() {
        let mut world = World::new(60 * MILLI, 20 * MILLI, 100);
        world.offer(500 * MILLI, 200);
        world.free_at = world.now + 5_000 * MILLI;
        world.offer(1_000 * MILLI, 200);
        // The waiting calls were lost when the server failed.
        world.free_at = 0;
        world.offer(200 * MILLI, 200);
        let count = world.offer(500 * MILLI, 200);
        assert_eq!((count.refused, count.late), (0, 0), "{count:?}");
    }
}
