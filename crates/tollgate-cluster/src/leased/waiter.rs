//! Callers that wait for a draw, and their answers.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use tollgate::algorithm::{Fields, Step};
use tollgate::{Error, Outcome, Timestamp};

use super::table::KeyQueue;
use super::terms::Terms;

/// The units that a waiting caller wants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Demand {
    /// All of these units.
    Hit(u64),
    /// As many of these units as possible.
    Take(u64),
    /// This many units as allotments, without spending them.
    Fetch(u64),
}

impl Demand {
    pub(crate) fn units(self) -> u64 {
        match self {
            Demand::Hit(units) | Demand::Take(units) | Demand::Fetch(units) => units,
        }
    }

    /// The least number of units that helps.
    fn least(self) -> u64 {
        if let Demand::Take(_) = self { 1 } else { self.units() }
    }
}

#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) demand: Demand,
    pub(crate) reply: oneshot::Sender<Result<Outcome, Error>>,
}

/// The size of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draw {
    /// Up to this many units, as far as the store has them.
    Any(u64),
    /// All of these units or none: one caller's large hit must not take the few units that others
    /// need.
    Whole(u64),
}

impl Draw {
    pub(crate) fn units(self) -> u64 {
        match self {
            Draw::Any(units) | Draw::Whole(units) => units,
        }
    }
}

impl KeyQueue {
    /// Answers from the allotments, unless other callers wait already. The flag is true if the
    /// caller has to start a draw.
    #[inline]
    pub(crate) fn ask(
        &mut self,
        terms: &Terms,
        now: Timestamp,
        demand: Demand,
    ) -> Option<(Outcome, bool)> {
        if !self.waiters.is_empty() {
            return None;
        }
        let (decision, low) = self.serve(terms, now, demand)?;
        // The first caller that sees few units left starts a draw.
        self.holding.drawing |= low;
        Some((decision, low))
    }

    /// Whether this many units are there for a new caller.
    pub(crate) fn has(&self, now: Timestamp, units: u64) -> bool {
        self.waiters.is_empty() && self.holding.peek(now, units).is_some()
    }

    fn serve(&mut self, terms: &Terms, now: Timestamp, demand: Demand) -> Option<(Outcome, bool)> {
        let holding = &mut self.holding;
        let decision = match demand {
            Demand::Hit(units) => return holding.hit(terms, now, units),
            // Less than all of it only if the store has no more.
            Demand::Take(units) if holding.left(now) >= units => holding.take(terms, now, units),
            Demand::Take(units) => {
                let refusal = holding.refusal(now, 1)?;
                holding.take(terms, now, units).or(Some(refusal))
            }
            Demand::Fetch(units) => {
                holding.peek(now, units).or_else(|| holding.refusal(now, units))
            }
        };
        Some((decision?, false))
    }

    /// The next draw for waiting callers, or ahead of them, and how many callers it serves.
    pub(crate) fn next_draw(&mut self, terms: &Terms, nodes: u64, now: Timestamp) -> (Draw, usize) {
        self.waiters.retain(|waiter| !waiter.reply.is_closed());
        let left = self.holding.left(now);
        let all: u64 =
            self.waiters.iter().fold(0, |sum, waiter| sum.saturating_add(waiter.demand.units()));
        let first = self.waiters.front().map_or(0, |waiter| waiter.demand.units());
        let alone = self.holding.want(terms, nodes, 0);
        let whole = first.saturating_sub(left);
        match self.waiters.front().map(|waiter| waiter.demand) {
            Some(Demand::Hit(_) | Demand::Fetch(_)) if whole > alone && whole > 1 => {
                (Draw::Whole(whole), 1)
            }
            _ => {
                let needed = all.saturating_sub(left);
                (Draw::Any(self.holding.want(terms, nodes, needed)), self.waiters.len())
            }
        }
    }

    /// Answers the callers that a draw served. For them it is the store's own decision,
    /// however late it arrives. Returns the rest of the draw.
    pub(crate) fn answer_served(
        &mut self,
        terms: &Terms,
        now: Timestamp,
        (draw, waited): (Draw, usize),
        answer: &Outcome,
    ) -> u64 {
        let mut left = answer.charged();
        let empty =
            left < draw.units() && (answer.remaining() == 0 || matches!(draw, Draw::Whole(_)));
        let mut others = VecDeque::new();
        for waiter in self.waiters.drain(..waited.min(self.waiters.len())) {
            let decision = match waiter.demand {
                _ if waiter.reply.is_closed() => continue,
                Demand::Hit(units) if units <= left => Some(granted(answer, units, units)),
                Demand::Take(units) if left > 0 => Some(granted(answer, units, units.min(left))),
                Demand::Fetch(units) if units <= left => Some(granted(answer, units, 0)),
                demand if empty && self.holding.left(now).saturating_add(left) < demand.least() => {
                    Some(refused(terms, answer, demand.least()))
                }
                _ => None,
            };
            let Some(decision) = decision else {
                others.push_back(waiter);
                continue;
            };
            // The caller is gone, so nothing was admitted.
            if waiter.reply.send(Ok(decision)).is_ok() {
                left -= decision.charged();
            }
        }
        others.append(&mut self.waiters);
        self.waiters = others;
        left
    }

    /// Answers waiting callers in order, as far as the allotments or a denial go. True if a caller
    /// still waits.
    pub(crate) fn answer_waiters(&mut self, terms: &Terms, now: Timestamp) -> bool {
        while let Some(first) = self.waiters.pop_front() {
            if first.reply.is_closed() {
                continue;
            }
            let Some((decision, _)) = self.serve(terms, now, first.demand) else {
                self.waiters.push_front(first);
                return true;
            };
            if let Err(Ok(unheard)) = first.reply.send(Ok(decision))
                && unheard.charged() > 0
            {
                self.holding.put_back(terms, now, &unheard.receipt());
            }
        }
        false
    }

    /// Answers all waiting callers with an error.
    pub(crate) fn fail(&mut self, error: &Error) {
        for waiter in self.waiters.drain(..) {
            let _ = waiter.reply.send(Err(error.clone()));
        }
    }
}

/// A part of the answer to a draw, for one waiting caller.
fn granted(answer: &Outcome, cost: u64, charged: u64) -> Outcome {
    let step = Step { allowed: true, cost, charged, changed: charged > 0 };
    Outcome::of_fields(step, answer.now(), answer.fields())
}

/// The answer for a caller who waited for more than there was. A store reports the wait for the
/// cost that it was asked for; for another cost the wait is the life of an allotment.
fn refused(terms: &Terms, answer: &Outcome, cost: u64) -> Outcome {
    let again = answer.asked_again(answer.now(), cost).unwrap_or(*answer);
    let known = again.fields();
    let store_wait = known.retry_at.filter(|_| !again.allowed());
    let wait = || store_wait.unwrap_or(answer.now() + terms.life);
    let retry_at = (cost <= known.limit).then(wait);
    let step = Step { allowed: false, cost, charged: 0, changed: false };
    Outcome::of_fields(step, answer.now(), Fields { retry_at, ..known })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::algorithm::{AnyMachine, Op};
    use tollgate::{Limit, Source};

    use super::*;

    fn wait(queue: &mut KeyQueue, demand: Demand) -> oneshot::Receiver<Result<Outcome, Error>> {
        let (reply, answer) = oneshot::channel();
        queue.waiters.push_back(Waiter { demand, reply });
        answer
    }

    /// A store with five units. The answer to the draw comes when its life is long over.
    #[test]
    fn a_waiting_caller_gets_the_answer_of_the_store_however_late() {
        let limit: Limit = "5/minute fixed-window".parse().unwrap();
        let terms = Terms::new(&limit, Duration::from_millis(1), Duration::ZERO).unwrap();
        let (machine, mut state) = (AnyMachine::new(&limit), None);
        let (sent, now) = (Timestamp::from_micros(7), Timestamp::from_micros(9_000_000));
        let mut queue = KeyQueue::default();
        let waits = [Demand::Hit(3), Demand::Hit(4), Demand::Take(9), Demand::Hit(1)];
        let mut answers = waits.map(|demand| wait(&mut queue, demand));
        let (draw, waited) = (Draw::Any(17), waits.len());
        let answer = machine.apply(&mut state, Timestamp::from_micros(60_000_000), Op::Take(17));
        let left = queue.answer_served(&terms, now, (draw, waited), &answer);
        let _ = queue.holding.drawn(&terms, (sent, now), (draw.units(), left), answer);
        assert!(!queue.answer_waiters(&terms, now), "a caller still waits");
        let decisions = answers.each_mut().map(|answer| answer.try_recv().unwrap().unwrap());
        let said = decisions.map(|decision| (decision.allowed(), decision.charged()));
        assert_eq!(said, [(true, 3), (false, 0), (true, 2), (false, 0)]);
        assert!(decisions.iter().all(|decision| decision.source() == Source::Store));
        assert_eq!(decisions[3].retry_after(), Some(Duration::from_secs(60)));
    }
}
