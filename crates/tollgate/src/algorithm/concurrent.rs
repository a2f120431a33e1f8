//! Concurrency limit: at most `n` units are held at the same time.
//!
//! **The simplest idea** is a counter that goes up when work begins and down when it ends. **Where
//! it fails:** a process that dies in between never counts down, so its units are lost for ever; a
//! counter with an expiry comes back as a whole and admits too much; and a release that is executed
//! twice frees the unit of another holder.
//!
//! **What mends it.** The state names each holder, by 128 bits, with its units and its deadline. A
//! release removes exactly that holder, and does nothing if it is gone. From its deadline on a
//! holder no longer counts, even if nobody removed it.
//!
//! ```text
//! 2 concurrent hold=60s   12:00:00   12:00:10   12:00:20       12:00:30     12:00:30   12:01:10
//!                         A: allow   B: allow   C: deny,       A releases   C: allow   B has expired
//!                                               wait 40 s
//! ```
//!
//! **The bound.** Never more than `n` units are live at any instant of the store's clock. A holder
//! must stop at its deadline, because its units may then be given to another holder.
//!
//! **What it gives up.** Memory: some 50 bytes for each holder. The wait of a denial is the longest
//! one: most holders release before their deadline. A hit has no holder, so it is denied; only
//! [holds](crate::hold) and permits take units.
//!
//! **The guard against time going back** is the set of holders: a holder that was removed does not
//! come back, so units that were given away are never counted twice.
//!
//! Every grant gets a *fence*: a number that grows with each grant on the key. A resource that
//! remembers the highest fence it has seen can reject a holder that lost its unit and does not know
//! it yet.

use std::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;

use super::{Aging, Fields, Machine, Step, View};
use crate::limit::{Description, Rate};
use crate::outcome::Receipt;
use crate::time::Timestamp;

/// The deadline of a holder that has none.
pub const NO_DEADLINE: Timestamp = Timestamp::MAX;

/// One holder of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The number that names the holder.
    pub id: u128,
    /// The units that it holds.
    pub units: u64,
    /// The time from which the units no longer count. [`NO_DEADLINE`] if there is none.
    pub deadline: Timestamp,
}

/// The holders of a key, and the fence of the latest grant.
#[derive(Clone, Debug)]
pub struct ConcurrentState {
    fence: u64,
    /// The units of all holders, including those that have expired and were not removed yet.
    units: u64,
    /// No holder has a deadline before this time. Holders are searched for expired ones only from
    /// this time on, so that a call usually takes the same time for any number of holders.
    soonest: Timestamp,
    holders: HashMap<u128, (u64, Timestamp), BuildHasherDefault<IdHasher>>,
}

/// The hash of an id is its lower half, because ids are random.
#[derive(Clone, Copy, Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    #[inline]
    fn write_u128(&mut self, id: u128) {
        self.0 = id as u64 ^ (id >> 64) as u64;
    }
}

impl Default for ConcurrentState {
    fn default() -> Self {
        ConcurrentState { fence: 0, units: 0, soonest: NO_DEADLINE, holders: HashMap::default() }
    }
}

/// Two states are equal if they have the same holders and the same fence.
impl PartialEq for ConcurrentState {
    fn eq(&self, other: &Self) -> bool {
        self.fence == other.fence && self.holders == other.holders
    }
}

impl Eq for ConcurrentState {}

impl ConcurrentState {
    /// Creates a state with the fence of the latest grant and these holders. If two holders have
    /// the same id, the later one replaces the earlier one.
    ///
    /// ```
    /// use tollgate::Timestamp;
    /// use tollgate::algorithm::concurrent::{ConcurrentState, Holder};
    /// let holder = Holder { id: 7, units: 2, deadline: Timestamp::from_micros(5) };
    /// let state = ConcurrentState::from_holders(3, [holder]);
    /// assert_eq!((state.fence(), state.holders()), (3, vec![holder]));
    /// ```
    pub fn from_holders(fence: u64, holders: impl IntoIterator<Item = Holder>) -> ConcurrentState {
        let mut state = ConcurrentState { fence, ..ConcurrentState::default() };
        for Holder { id, units, deadline } in holders {
            state.put(id, units, deadline);
        }
        state
    }

    /// Returns the fence of the latest grant.
    ///
    /// See the example of [`ConcurrentState::from_holders`].
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Returns all holders, the first deadline first. Some may have expired.
    ///
    /// See the example of [`ConcurrentState::from_holders`].
    #[must_use]
    pub fn holders(&self) -> Vec<Holder> {
        let holder = |(id, (units, deadline)): (&u128, &(u64, Timestamp))| Holder {
            id: *id,
            units: *units,
            deadline: *deadline,
        };
        let mut all: Vec<_> = self.holders.iter().map(holder).collect();
        all.sort_unstable_by_key(|holder| (holder.deadline, holder.id));
        all
    }

    fn put(&mut self, id: u128, units: u64, deadline: Timestamp) {
        let before = self.holders.insert(id, (units, deadline)).map_or(0, |(units, _)| units);
        self.units = self.units.saturating_sub(before).saturating_add(units);
        self.soonest = self.soonest.min(deadline);
    }

    fn remove(&mut self, id: u128) -> Option<u64> {
        let (units, _) = self.holders.remove(&id)?;
        self.units = self.units.saturating_sub(units);
        Some(units)
    }

    fn live(&self, now: Timestamp) -> impl Iterator<Item = (u64, Timestamp)> + '_ {
        self.holders.values().copied().filter(move |(_, deadline)| is_live(*deadline, now))
    }

    fn live_units(&self, now: Timestamp) -> u64 {
        if is_live(self.soonest, now) {
            return self.units;
        }
        self.live(now).fold(0, |sum, (units, _)| sum.saturating_add(units))
    }

    /// Returns the units and the deadline of a holder that has not expired.
    fn holder(&self, id: u128, now: Timestamp) -> Option<(u64, Timestamp)> {
        self.holders.get(&id).copied().filter(|(_, deadline)| is_live(*deadline, now))
    }

    /// Returns the units of a holder that has not expired.
    pub(crate) fn units_of(&self, id: u128, now: Timestamp) -> Option<u64> {
        self.holder(id, now).map(|(units, _)| units)
    }

    fn drop_expired(&mut self, now: Timestamp) {
        if is_live(self.soonest, now) {
            return;
        }
        self.holders.retain(|_, (_, deadline)| is_live(*deadline, now));
        self.units = 0;
        self.soonest = NO_DEADLINE;
        for (units, deadline) in self.holders.values() {
            self.units = self.units.saturating_add(*units);
            self.soonest = self.soonest.min(*deadline);
        }
    }
}

fn is_live(deadline: Timestamp, now: Timestamp) -> bool {
    now < deadline || deadline == NO_DEADLINE
}

/// The functions of the concurrency limit.
#[derive(Clone, Copy, Debug)]
pub struct Concurrent {
    quota: u64,
}

impl Concurrent {
    pub(crate) fn new(rate: Rate) -> Self {
        Concurrent { quota: rate.quota }
    }

    /// Returns whether `units` more fit.
    #[must_use]
    pub fn has_room(&self, state: Option<&ConcurrentState>, now: Timestamp, units: u64) -> bool {
        self.fits(state, now, units)
    }

    /// Takes units for a new holder, and returns the fence of the grant. `None` if the units do not
    /// fit; then nothing changes. A holder of that id is replaced.
    ///
    /// ```
    /// use tollgate::{Limit, Timestamp};
    /// use tollgate::algorithm::AnyMachine;
    ///
    /// let machine = AnyMachine::new(&Limit::concurrent(2).build()?);
    /// let AnyMachine::Concurrent(slots) = machine else { unreachable!() };
    /// let (mut state, now) = (None, Timestamp::from_micros(1_000_000));
    /// let deadline = Timestamp::from_micros(9_000_000);
    /// assert_eq!(slots.acquire(&mut state, now, 7, 2, deadline), Some(1_000_000));
    /// assert_eq!(slots.acquire(&mut state, now, 8, 1, deadline), None);
    /// assert_eq!(slots.release(&mut state, 7), Some(2));
    /// assert_eq!(slots.release(&mut state, 7), None);
    /// assert_eq!(slots.acquire(&mut state, now, 8, 1, deadline), Some(1_000_001));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub fn acquire(
        &self,
        state: &mut Option<ConcurrentState>,
        now: Timestamp,
        id: u128,
        units: u64,
        deadline: Timestamp,
    ) -> Option<u64> {
        let own = state.as_ref().and_then(|state| state.holder(id, now)).map_or(0, |own| own.0);
        let used = self.used(state.as_ref(), now).saturating_sub(own);
        if used.saturating_add(units) > self.quota {
            return None;
        }
        let state = state.get_or_insert_default();
        state.drop_expired(now);
        state.put(id, units, deadline);
        state.fence = now.as_micros().max(state.fence.saturating_add(1));
        Some(state.fence)
    }

    /// Changes the units of a holder if they fit, and returns whether it did. The fence of the
    /// grant stays. `false` also if the holder is gone: see [`Concurrent::holds`].
    pub fn resize(
        &self,
        state: &mut Option<ConcurrentState>,
        now: Timestamp,
        id: u128,
        units: u64,
    ) -> bool {
        let used = self.used(state.as_ref(), now);
        let Some(state) = state else { return false };
        let Some((own, deadline)) = state.holder(id, now) else { return false };
        let fits = used.saturating_sub(own).saturating_add(units) <= self.quota;
        if fits {
            state.put(id, units, deadline);
        }
        fits
    }

    /// Frees the units of a holder, and returns them. `None` if the holder is gone; then nothing
    /// changes.
    ///
    /// See the example of [`Concurrent::acquire`].
    pub fn release(&self, state: &mut Option<ConcurrentState>, id: u128) -> Option<u64> {
        state.as_mut()?.remove(id)
    }

    /// Gives a holder another deadline. `false` if the holder is gone or has expired.
    pub fn extend(
        &self,
        state: &mut Option<ConcurrentState>,
        now: Timestamp,
        id: u128,
        deadline: Timestamp,
    ) -> bool {
        let Some(state) = state else { return false };
        let Some((units, _)) = state.holder(id, now) else { return false };
        state.put(id, units, deadline);
        true
    }

    /// Returns whether this holder has units now.
    #[must_use]
    pub fn holds(&self, state: Option<&ConcurrentState>, now: Timestamp, id: u128) -> bool {
        state.is_some_and(|state| state.holder(id, now).is_some())
    }
}

impl Machine for Concurrent {
    type State = ConcurrentState;

    const IS_PERIODIC: bool = false;

    fn describe(rate: Rate) -> Description {
        let n = rate.quota;
        Description {
            admits: format!("{n} at the same time"),
            at_most: format!("{n} at any instant"),
        }
    }

    fn capacity(&self) -> u64 {
        self.quota
    }

    fn fits(&self, state: Option<&ConcurrentState>, now: Timestamp, cost: u64) -> bool {
        self.used(state, now).saturating_add(cost) <= self.quota
    }

    fn room(&self, state: Option<&ConcurrentState>, now: Timestamp) -> u64 {
        self.quota.saturating_sub(self.used(state, now))
    }

    fn used(&self, state: Option<&ConcurrentState>, now: Timestamp) -> u64 {
        state.map_or(0, |state| state.live_units(now))
    }

    /// Returns the time at which enough holders have expired if none of them releases its units
    /// before. [`NO_DEADLINE`] if too many of them have no deadline.
    fn retry_at(&self, state: Option<&ConcurrentState>, now: Timestamp, cost: u64) -> Timestamp {
        let Some(state) = state else { return now };
        let mut must_go = self.used(Some(state), now).saturating_add(cost);
        let mut live: Vec<_> = state.live(now).map(|(units, deadline)| (deadline, units)).collect();
        live.sort_unstable();
        for (deadline, units) in live {
            must_go = must_go.saturating_sub(units);
            if must_go <= self.quota {
                return deadline;
            }
        }
        now
    }

    /// Returns the last deadline. A state is kept until its last fence lies in the past, so that
    /// the first grant after that has a higher one.
    fn fresh_at(&self, state: &ConcurrentState) -> Timestamp {
        let last = state.holders.values().map(|(_, deadline)| *deadline).max();
        let after_fence = Timestamp::from_micros(state.fence.saturating_add(1));
        last.map_or(after_fence, |last| last.max(after_fence))
    }

    /// A hit has no holder, and is never granted units.
    fn admit(&self, _state: &mut Option<ConcurrentState>, _now: Timestamp, _cost: u64) -> bool {
        false
    }

    /// Charges nothing, because the units would have no holder.
    fn charge(
        &self,
        state: Option<ConcurrentState>,
        _now: Timestamp,
        _units: u64,
    ) -> ConcurrentState {
        state.unwrap_or_default()
    }

    fn mark(&self, state: &ConcurrentState) -> u64 {
        state.fence
    }

    fn refund(
        &self,
        _state: &ConcurrentState,
        _now: Timestamp,
        _receipt: &Receipt,
    ) -> Option<Option<ConcurrentState>> {
        None
    }

    /// Frees the units of all holders if `units` is 0. It changes nothing otherwise, because units
    /// without a holder cannot be counted.
    fn set(
        &self,
        state: Option<&ConcurrentState>,
        now: Timestamp,
        units: u64,
    ) -> Option<ConcurrentState> {
        let state = state.cloned();
        if units == 0 { self.reset(state, now) } else { state }
    }

    /// Keeps the fence as long as the next grant could otherwise have the same one.
    fn reset(&self, state: Option<ConcurrentState>, now: Timestamp) -> Option<ConcurrentState> {
        let fence = state.map_or(0, |state| state.fence);
        (fence >= now.as_micros()).then(|| ConcurrentState::from_holders(fence, []))
    }

    fn aging(&self) -> Aging {
        Aging::Holds
    }

    fn remote_state(&self, _numbers: [u64; 3]) -> Option<ConcurrentState> {
        None
    }

    fn view(&self, state: Option<&ConcurrentState>, now: Timestamp, step: &Step) -> View {
        let fields = Fields::of(self, state, now, step);
        let retry_at = fields.retry_at.filter(|at| *at != NO_DEADLINE);
        let fresh_at = state.and_then(|state| state.live(now).map(|(_, deadline)| deadline).max());
        View::Fields(Fields { retry_at, fresh_at, ..fields })
    }

    /// A state without live holders acts as a fresh one, whatever its fence is.
    fn is_fresh(&self, state: Option<&ConcurrentState>, now: Timestamp) -> bool {
        self.used(state, now) == 0
    }
}
