//! Budget: units that never come back by themselves.
//!
//! **The simplest idea** is a window of a hundred years. **Where it fails:** it ends, and the states
//! of keys that were quiet for long are forgotten, which is a full refund.
//!
//! **What mends it.** A count without a time. Only `charge`, `refund`, `set`, `reset` and another
//! quota change what is left; no store forgets it by itself.
//!
//! ```text
//! 3 total       hit 2      hit 2                    quota becomes 10    hit 2
//!               allow      deny, no wait helps                          allow, 6 left
//! ```
//!
//! **The bound.** At most the quota, and what was given back, ever.
//!
//! **What it gives up.** A denial cannot say when to retry, and a store must keep each key for ever.
//! A receipt of a budget is worth its units at any time.

use super::{Aging, Fields, MAX_UNITS, Machine, Step, View, words};
use crate::limit::{Description, Rate};
use crate::outcome::Receipt;
use crate::time::Timestamp;

/// The units in use, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetState {
    /// The units in use.
    pub count: u64,
}

words!(BudgetState, [count], 1, Self { count }, |s| [s.count]);

/// The functions of the budget.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    quota: u64,
}

impl Budget {
    pub(crate) fn new(rate: Rate) -> Self {
        Budget { quota: rate.quota }
    }

    /// Returns the state with this count. A budget of which nothing is used is a fresh one.
    fn with(count: u64) -> Option<BudgetState> {
        (count > 0).then_some(BudgetState { count })
    }
}

impl Machine for Budget {
    type State = BudgetState;

    const IS_PERIODIC: bool = false;

    fn describe(rate: Rate) -> Description {
        let n = rate.quota;
        Description {
            admits: format!("{n} in all, until units are given back or the quota changes"),
            at_most: format!("{n} ever"),
        }
    }

    fn capacity(&self) -> u64 {
        self.quota
    }

    fn fits(&self, state: Option<&BudgetState>, now: Timestamp, cost: u64) -> bool {
        self.used(state, now).saturating_add(cost) <= self.quota
    }

    fn room(&self, state: Option<&BudgetState>, now: Timestamp) -> u64 {
        self.quota.saturating_sub(self.used(state, now))
    }

    fn used(&self, state: Option<&BudgetState>, _now: Timestamp) -> u64 {
        state.map_or(0, |state| state.count)
    }

    fn retry_at(&self, _: Option<&BudgetState>, _now: Timestamp, _cost: u64) -> Timestamp {
        Timestamp::MAX
    }

    fn fresh_at(&self, _state: &BudgetState) -> Timestamp {
        Timestamp::MAX
    }

    fn charge(&self, state: Option<BudgetState>, _now: Timestamp, units: u64) -> BudgetState {
        let count = state.map_or(0, |state| state.count);
        BudgetState { count: count.saturating_add(units).min(MAX_UNITS) }
    }

    fn mark(&self, _state: &BudgetState) -> u64 {
        0
    }

    fn refund(
        &self,
        state: &BudgetState,
        _now: Timestamp,
        receipt: &Receipt,
    ) -> Option<Option<BudgetState>> {
        Some(Budget::with(state.count.saturating_sub(receipt.units)))
    }

    fn set(&self, _: Option<&BudgetState>, _now: Timestamp, units: u64) -> Option<BudgetState> {
        Budget::with(units)
    }

    fn aging(&self) -> Aging {
        Aging::Never
    }

    fn remote_state(&self, [count, ..]: [u64; 3]) -> Option<BudgetState> {
        Budget::with(count)
    }

    /// The end of time is no time at which anything is fresh again.
    fn view(&self, state: Option<&BudgetState>, now: Timestamp, step: &Step) -> View {
        let fields = Fields::of(self, state, now, step);
        View::Fields(Fields { retry_at: None, fresh_at: None, ..fields })
    }
}
