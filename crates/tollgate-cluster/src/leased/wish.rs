//! Who waits for a draw, and what becomes of them when it is there.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use tollgate::algorithm::Step;
use tollgate::{Decision, Error, Timestamp};

use super::holding::InHand;
use super::table::Desk;
use super::terms::Terms;

/// What somebody waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish {
    /// All of these units.
    Hit(u64),
    /// Any of these units.
    Take(u64),
    /// That so many are in hand, without spending them.
    Fetch(u64),
}

impl Wish {
    pub(crate) fn units(self) -> u64 {
        match self {
            Wish::Hit(units) | Wish::Take(units) | Wish::Fetch(units) => units,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) wish: Wish,
    pub(crate) tell: oneshot::Sender<Result<Decision, Error>>,
}

/// What to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draw {
    /// As much of it as there is.
    Any(u64),
    /// All of it or nothing: one caller's large hit must not leave others without the little that is there.
    Whole(u64),
}

impl Draw {
    pub(crate) fn units(self) -> u64 {
        match self {
            Draw::Any(units) | Draw::Whole(units) => units,
        }
    }
}

impl Desk {
    /// Answers from what is in hand, unless others came first. True if the asker has to fetch more.
    #[inline]
    pub(crate) fn ask(
        &mut self,
        terms: &Terms,
        now: Timestamp,
        wish: Wish,
    ) -> Option<(Decision, bool)> {
        if !self.waiting.is_empty() {
            return None;
        }
        match self.serve(terms, now, wish) {
            InHand::Decided { decision, low } => {
                // Whoever sees it low first fetches.
                self.holding.drawing |= low;
                Some((decision, low))
            }
            InHand::Nothing => None,
        }
    }

    /// Whether so many units are there, for who comes now.
    pub(crate) fn has(&self, now: Timestamp, units: u64) -> bool {
        self.waiting.is_empty() && self.holding.peek(now, units).is_some()
    }

    fn serve(&mut self, terms: &Terms, now: Timestamp, wish: Wish) -> InHand {
        let decided = |decision| InHand::Decided { decision, low: false };
        let refused =
            |desk: &Desk, units| desk.holding.refusal(now, units).map_or(InHand::Nothing, decided);
        match wish {
            Wish::Hit(units) => self.holding.hit(terms, now, units),
            Wish::Take(units)
                if self.holding.left(now) >= units || self.holding.refusal(now, 1).is_some() =>
            {
                self.holding.take(terms, now, units).map_or_else(|| refused(self, 1), decided)
            }
            Wish::Take(_) => InHand::Nothing,
            Wish::Fetch(units) => {
                self.holding.peek(now, units).map_or_else(|| refused(self, units), decided)
            }
        }
    }

    /// What to draw for those who wait, or ahead of them, and how many wait for it.
    pub(crate) fn next_draw(&mut self, terms: &Terms, nodes: u64, now: Timestamp) -> (Draw, usize) {
        self.waiting.retain(|waiting| !waiting.tell.is_closed());
        let left = self.holding.left(now);
        let all: u64 =
            self.waiting.iter().fold(0, |sum, waiting| sum.saturating_add(waiting.wish.units()));
        let first = self.waiting.front().map_or(0, |waiting| waiting.wish.units());
        let alone = self.holding.want(terms, nodes, 0);
        let whole = first.saturating_sub(left);
        match self.waiting.front().map(|waiting| waiting.wish) {
            Some(Wish::Hit(_) | Wish::Fetch(_)) if whole > alone && whole > 1 => {
                (Draw::Whole(whole), 1)
            }
            _ => {
                let needed = all.saturating_sub(left);
                (Draw::Any(self.holding.want(terms, nodes, needed)), self.waiting.len())
            }
        }
    }

    /// Tells those for whom a draw was made: for them it is the store's own decision, however late it comes. Returns what is left of it.
    pub(crate) fn tell_first(&mut self, waited: usize, answer: &Decision, draw: Draw) -> u64 {
        let mut left = answer.charged();
        let mut others = VecDeque::new();
        for waiting in self.waiting.drain(..waited.min(self.waiting.len())) {
            let refused = matches!(draw, Draw::Whole(_)) && !answer.allowed() && others.is_empty();
            let decision = match waiting.wish {
                _ if waiting.tell.is_closed() => continue,
                Wish::Hit(_) | Wish::Fetch(_) if refused => Some(*answer),
                Wish::Hit(units) if units <= left => Some(of_store(answer, units, units)),
                Wish::Take(units) if left > 0 => Some(of_store(answer, units, units.min(left))),
                Wish::Fetch(units) if units <= left => Some(of_store(answer, units, 0)),
                _ => None,
            };
            let Some(decision) = decision else {
                others.push_back(waiting);
                continue;
            };
            // Gone meanwhile: nothing was admitted.
            if waiting.tell.send(Ok(decision)).is_ok() {
                left -= decision.charged();
            }
        }
        others.append(&mut self.waiting);
        self.waiting = others;
        left
    }

    /// Tells those who wait, in order, as far as what is in hand or a refusal goes. True if somebody still waits.
    pub(crate) fn tell(&mut self, terms: &Terms, now: Timestamp) -> bool {
        while let Some(first) = self.waiting.pop_front() {
            if first.tell.is_closed() {
                continue;
            }
            match self.serve(terms, now, first.wish) {
                InHand::Decided { decision, .. } => {
                    if let Err(Ok(unheard)) = first.tell.send(Ok(decision))
                        && unheard.charged() > 0
                    {
                        self.holding.put_back(terms, now, &unheard.receipt());
                    }
                }
                InHand::Nothing => {
                    self.waiting.push_front(first);
                    return true;
                }
            }
        }
        false
    }

    /// Tells all who wait that there was no answer.
    pub(crate) fn fail(&mut self, error: &Error) {
        for waiting in self.waiting.drain(..) {
            let _ = waiting.tell.send(Err(error.clone()));
        }
    }
}

/// A part of what a draw was answered, for one who waited for it.
fn of_store(answer: &Decision, cost: u64, charged: u64) -> Decision {
    let step = Step { allowed: true, cost, charged, changed: charged > 0 };
    Decision::of_fields(step, answer.now(), answer.fields())
}
