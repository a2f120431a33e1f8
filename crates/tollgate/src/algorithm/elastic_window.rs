//! Elastic window: a counter that is forgotten only after a whole period without attempts.
//!
//! **The simplest idea** is the fixed window per key: when the window ends, the key is free again,
//! however many attempts were denied meanwhile. **Where it fails:** a client that guesses passwords
//! loses nothing by trying again, because every window has a new quota.
//!
//! **What mends it.** Every attempt, including a denied one, moves the end of the window to one
//! period from now. Only a period without attempts ends it.
//!
//! ```text
//! 2/minute      12:00:00   12:00:10   12:00:30           12:01:20                 12:02:20
//!                allow      allow      deny, until 12:01:30   deny, until 12:02:20    allow
//! ```
//!
//! **The bound.** At most `n` units until there has been no attempt for `p`.
//!
//! **What it gives up.** A client that retries on a timer shorter than the period is never admitted
//! again: right for lock-outs, wrong for traffic. The wait in a denial is correct only if the
//! client makes no attempt before it ends.
//!
//! **The guard against time going back** is the expiry, which only moves forward. A receipt can be
//! refunded within one period of its charge, because until then the window cannot have closed.
//! Later it is not known in which window the units were counted.

use super::{Aging, MAX_UNITS, Machine, Step, View, words};
use crate::limit::{Description, Rate};
use crate::outcome::Receipt;
use crate::time::Timestamp;

/// The time at which the window closes if there is no earlier attempt, and the units counted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElasticWindowState {
    /// The time at which the window closes.
    pub expiry: Timestamp,
    /// The units counted in the window.
    pub count: u64,
}

words!(
    ElasticWindowState,
    [expiry, count],
    2,
    Self { expiry: Timestamp::from_micros(expiry), count },
    |s| [s.expiry.as_micros(), s.count]
);

/// The functions of the elastic window.
#[derive(Clone, Copy, Debug)]
pub struct ElasticWindow {
    quota: u64,
    period: u64,
    charge_denied: bool,
}

impl ElasticWindow {
    pub(crate) fn new(rate: Rate) -> Self {
        ElasticWindow { quota: rate.quota, period: rate.period, charge_denied: rate.charge_denied }
    }

    /// Returns the units that still count.
    fn count(&self, state: Option<&ElasticWindowState>, now: Timestamp) -> u64 {
        state.filter(|state| now < state.expiry).map_or(0, |state| state.count)
    }

    /// Returns the end of the window after an attempt now.
    fn extended(&self, state: Option<&ElasticWindowState>, now: Timestamp) -> Timestamp {
        let expiry = now.plus(self.period);
        state.map_or(expiry, |state| state.expiry.max(expiry))
    }
}

impl Machine for ElasticWindow {
    type State = ElasticWindowState;

    const CAN_CHARGE_DENIED: bool = true;

    fn describe(rate: Rate) -> Description {
        let (n, p) = (rate.quota, rate.span());
        Description {
            admits: format!(
                "{n} until the key was silent for {p}: every attempt starts the wait anew"
            ),
            at_most: format!("{n} until the key was silent for {p}"),
        }
    }

    fn capacity(&self) -> u64 {
        self.quota
    }

    fn charges_denied(&self) -> bool {
        self.charge_denied
    }

    #[inline(always)]
    fn fits(&self, state: Option<&ElasticWindowState>, now: Timestamp, cost: u64) -> bool {
        self.count(state, now).saturating_add(cost) <= self.quota
    }

    fn room(&self, state: Option<&ElasticWindowState>, now: Timestamp) -> u64 {
        self.quota.saturating_sub(self.count(state, now))
    }

    fn used(&self, state: Option<&ElasticWindowState>, now: Timestamp) -> u64 {
        self.count(state, now)
    }

    fn retry_at(
        &self,
        state: Option<&ElasticWindowState>,
        now: Timestamp,
        _cost: u64,
    ) -> Timestamp {
        self.extended(state, now)
    }

    fn fresh_at(&self, state: &ElasticWindowState) -> Timestamp {
        state.expiry
    }

    #[inline(always)]
    fn charge(
        &self,
        state: Option<ElasticWindowState>,
        now: Timestamp,
        units: u64,
    ) -> ElasticWindowState {
        let count = self.count(state.as_ref(), now).saturating_add(units).min(MAX_UNITS);
        ElasticWindowState { expiry: self.extended(state.as_ref(), now), count }
    }

    fn attempt(
        &self,
        state: Option<&ElasticWindowState>,
        now: Timestamp,
    ) -> Option<ElasticWindowState> {
        let live = state.filter(|state| now < state.expiry)?;
        Some(ElasticWindowState { expiry: self.extended(Some(live), now), count: live.count })
    }

    fn mark(&self, _state: &ElasticWindowState) -> u64 {
        0
    }

    fn refund(
        &self,
        state: &ElasticWindowState,
        now: Timestamp,
        receipt: &Receipt,
    ) -> Option<Option<ElasticWindowState>> {
        let same_window = now < state.expiry && now < receipt.at.plus(self.period);
        same_window.then(|| {
            Some(ElasticWindowState { count: state.count.saturating_sub(receipt.units), ..*state })
        })
    }

    fn set(
        &self,
        _state: Option<&ElasticWindowState>,
        now: Timestamp,
        units: u64,
    ) -> Option<ElasticWindowState> {
        Some(ElasticWindowState { expiry: now.plus(self.period), count: units })
    }

    fn aging(&self) -> Aging {
        Aging::Attempts
    }

    fn remote_state(&self, [expiry, count, _]: [u64; 3]) -> Option<ElasticWindowState> {
        Some(ElasticWindowState { expiry: Timestamp::from_micros(expiry), count })
    }

    #[inline(always)]
    fn view(&self, state: Option<&ElasticWindowState>, _now: Timestamp, _step: &Step) -> View {
        View::ElasticWindow(*self, state.copied())
    }
}
