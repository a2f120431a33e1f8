//! Bounds the calls under way to the number that the store answers within the deadline. It is pure:
//! the time is an argument.
//!
//! Without a bound, calls that a store cannot answer immediately wait somewhere: in the store, in a
//! socket, in its client. Once they wait longer than the deadline, callers leave before their calls
//! are executed, the store charges hits whose callers never learn the decision, and hardly any call
//! is answered.
//!
//! A store that is busy all the time answers `rate * wait` of the calls under way within `wait`
//! (Little's law). An answer should take half of the time between the fastest answer and the
//! deadline, and the bound is the number of calls that the store answers in that time. The bound is
//! adjusted in rounds:
//!
//! - At first, and again some time after an overload, there is no bound.
//! - It falls when calls of a round were late, or when two rounds in a row ended with more calls
//!   under way than are answered within the deadline at that rate.
//! - It rises as long as calls hardly wait for each other. So it finds a store that became faster.
//! - Calls whose callers left still hold up others. They count until a call that was sent after
//!   them is answered.
//!
//! Calls beyond the bound fail immediately, while they have surely not been executed.

use crate::time::Timestamp;

/// More calls than this are never under way: no bound.
const UNBOUNDED: u32 = 1 << 20;

/// This many calls may always be under way: their answers show when the store has recovered.
const LEAST: u32 = 2;

/// A round is late when more than one in this many answers was late.
const LATE_ONE_OF: u64 = 64;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The store answered.
    Answered,
    /// The deadline passed without an answer.
    Late,
    /// Anything else: the caller left early, the store was not reached.
    Other,
}

/// The calls under way on one lane.
#[derive(Debug)]
pub(crate) struct Load {
    bound: u32,
    under_way: u32,
    /// Calls whose callers have left, which the store may still execute, and when the last of them
    /// was sent.
    left_behind: u32,
    last_left_behind: Timestamp,
    /// The number of calls that were lately answered in the time that an answer should take.
    capacity: u32,
    /// When the bound was lowered, and whether the store still works on calls from before. Those,
    /// and calls that wait behind them, say nothing about the new bound.
    lowered: Timestamp,
    drains: bool,
    /// Whether there were more calls under way after the last round than are answered within the
    /// deadline.
    too_many: bool,
    /// When the bound was raised. Answers show the effect some time later.
    raised: Timestamp,
    /// The fastest answer of the last rounds, in microseconds.
    fastest: Option<u64>,
    round: Round,
}

/// The measurements of the current round.
#[derive(Debug, Default)]
struct Round {
    began: Option<Timestamp>,
    answered: u64,
    late: u64,
    /// The sum of the times of all answers in microseconds, and the fastest of them.
    waited: u64,
    fastest: Option<u64>,
    /// Whether a call ended that was sent since the bound was lowered.
    shows_bound: bool,
}

impl Load {
    pub(crate) fn new() -> Load {
        let round = Round::default();
        Load {
            bound: UNBOUNDED,
            under_way: 0,
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

    /// Whether one more call may be under way; else how many are allowed.
    pub(crate) fn enter(&mut self) -> Result<(), u32> {
        let in_store = self.under_way.saturating_add(self.left_behind);
        if in_store >= self.bound && self.under_way >= LEAST {
            return Err(self.bound);
        }
        self.enter_anyway();
        Ok(())
    }

    /// One more call is under way, whatever the bound.
    pub(crate) fn enter_anyway(&mut self) {
        self.under_way += 1;
    }

    /// A call that was entered has ended. `deadline` in microseconds is what a call may usually
    /// take.
    pub(crate) fn leave(&mut self, deadline: u64, entered: Timestamp, now: Timestamp, end: End) {
        self.under_way = self.under_way.saturating_sub(1);
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
        // A round lasts at least as long as one answer takes, with a few rounds in the time that an
        // answer should take.
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
        // The number of calls that are answered in the time that an answer should take.
        let in_time = u128::from(answered) * u128::from(target) / u128::from(lasted);
        let in_time = u32::try_from(in_time).unwrap_or(u32::MAX);
        let fastest = self.fastest.unwrap_or(0);
        let room = target.saturating_sub(fastest);
        let mean = waited.checked_div(answered);
        let queue = mean.map(|mean| mean.saturating_sub(fastest));
        // At this rate the calls under way take longer than the deadline. Only calls that wait for
        // each other show that: a burst of calls after a pause does not.
        let too_many = queue.is_some_and(|queue| queue > room / 2)
            && u128::from(self.under_way) * u128::from(lasted)
                > u128::from(answered) * u128::from(deadline);
        let too_many_again = std::mem::replace(&mut self.too_many, too_many) && too_many;
        if too_many_again || late * LATE_ONE_OF > answered {
            self.learn_capacity(in_time);
            self.bound = self.bound.min(self.capacity.max(in_time).max(LEAST));
            self.capacity /= 2;
            self.lowered = now;
            self.drains = true;
        } else if let Some(queue) = queue {
            self.learn_capacity(in_time);
            if queue <= room / 2 && micros_since(began, self.raised) >= target {
                // The bound rises quickly up to what the store has done before, then slowly.
                let known = self.capacity.min(self.bound * 2);
                self.bound = (self.bound + self.bound / 8 + 1).max(known).min(UNBOUNDED);
                self.raised = now;
            }
        }
        if let Some(fastest) = fastest_now {
            // An overloaded store gives no fast answers, so the fastest time is forgotten slowly.
            let rise = |before: u64| before + fastest.saturating_sub(before) / 64;
            self.fastest = Some(self.fastest.map_or(fastest, |before| rise(before).min(fastest)));
        }
    }
}

impl Load {
    /// A higher measurement counts for half immediately, a lower one only little by little: fewer
    /// calls may have been made.
    fn learn_capacity(&mut self, answered: u32) {
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

    /// A simulated store that executes calls one after the other, some distance away, and callers
    /// that come one after the other and leave at their deadline.
    struct World {
        load: Load,
        deadline: u64,
        /// The time of both ways together.
        distance: u64,
        /// Time that one call takes in the store.
        work: u64,
        free_at: u64,
        /// Time that a batch takes in the store beside its calls, the least time between two
        /// batches, and when the last one left. 0: each call goes alone.
        batch_work: u64,
        batch_gap: u64,
        last_batch: u64,
        /// Calls under way: when they entered and when the answer comes.
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

        /// Makes calls for `span`, one every `pause`.
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
    fn at_twice_its_capacity_a_store_answers_as_many_as_before() {
        // 10,000 calls a second.
        for (deadline, distance) in
            [(60, 20), (60, 0), (60, 40), (5, 0), (5, 2), (100, 1), (250, 20)]
        {
            let mut world = World::new(deadline * MILLI, distance * MILLI, 100);
            let seconds = 4 * deadline.max(250) * MILLI;
            let busy = world.offer(seconds, 50);
            let all = seconds / 100;
            let told = format!("{deadline} ms, {distance} ms away: {busy:?} of {all}");
            // The bound has to be found first, which takes a while where the store is almost too
            // far away.
            assert!(busy.answered >= all * 3 / 10, "{told}");
            assert!(busy.late <= all / 4, "{told}");
            let later = world.offer(seconds, 50);
            assert!(later.answered >= all * 9 / 10, "{deadline} {distance}: {later:?} of {all}");
            assert!(later.late <= all / 50, "{deadline} {distance}: {later:?} of {all}");
        }
    }

    #[test]
    fn at_twice_its_capacity_a_store_that_takes_batches_answers_as_many_as_before() {
        // Almost 20,000 calls a second. A call waits until its batch leaves, even if there are few.
        for batch_gap in [5, 10, 15] {
            let mut world = World::new(60 * MILLI, 20 * MILLI, 50);
            (world.batch_work, world.batch_gap) = (200, batch_gap * MILLI);
            // Pauses of the machine make calls late, but the store is as fast as before.
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
    fn below_its_capacity_no_call_is_refused() {
        let mut world = World::new(60 * MILLI, 20 * MILLI, 100);
        assert_eq!(world.offer(2_000 * MILLI, 110).refused, 0);
        world.offer(2_000 * MILLI, 50);
        world.offer(500 * MILLI, 200);
        assert_eq!(world.offer(2_000 * MILLI, 110).refused, 0, "it has recovered");
    }

    #[test]
    fn a_hiccup_is_soon_forgotten() {
        let mut world = World::new(60 * MILLI, 20 * MILLI, 100);
        world.offer(500 * MILLI, 200);
        world.free_at = world.now + 70 * MILLI;
        let count = world.offer(200 * MILLI, 200);
        assert!(count.late > 0 && count.refused <= count.late, "{count:?}");
        assert_eq!(world.offer(500 * MILLI, 200).refused, 0);
    }

    #[test]
    fn a_store_that_became_slower_and_faster_again_is_followed() {
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
    fn an_outage_is_followed_by_as_many_calls_as_before() {
        let mut world = World::new(60 * MILLI, 20 * MILLI, 100);
        world.offer(500 * MILLI, 200);
        world.free_at = world.now + 5_000 * MILLI;
        world.offer(1_000 * MILLI, 200);
        // The calls that waited are gone with the server.
        world.free_at = 0;
        world.offer(200 * MILLI, 200);
        let count = world.offer(500 * MILLI, 200);
        assert_eq!((count.refused, count.late), (0, 0), "{count:?}");
    }
}
