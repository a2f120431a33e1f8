//! The rule of a limiter for a store that does not answer.

use std::str::FromStr;
use std::sync::Arc;

use crate::algorithm::{AnyMachine, Op};
use crate::clock::Clock;
use crate::error::Error;
use crate::key::KeyRef;
use crate::limit::Limit;
use crate::memory::{Memory, Prepared};
use crate::outcome::{Outcome, Source};
use crate::store::{HitItem, Store};
use crate::time::Timestamp;

/// The rule by which a limiter decides if its store does not answer.
///
/// ```
/// use tollgate::shared::{OnFailure, Share};
/// // Each of four processes decides on a quarter of the limit while the store does not answer.
/// let on_failure = OnFailure::Local(Share::one_of(4)?);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// The limiter returns the error, and the caller decides.
    #[default]
    Error,
    /// The limiter allows every cost up to the capacity of its limits.
    Open,
    /// The limiter denies every hit.
    Closed,
    /// A local limiter decides on a share of the limit. While the store answers, the local limiter
    /// follows the usage in the store. Afterwards the store is charged for the units that the local
    /// limiter admitted: see [`GuardBuilder::charge_local`](super::GuardBuilder::charge_local).
    Local(Share),
}

/// Reads `error`, `open`, `closed`, or `local` with a share of the limit.
///
/// ```
/// use tollgate::shared::{OnFailure, Share};
/// assert_eq!("local 1/4".parse(), Ok(OnFailure::Local(Share::one_of(4)?)));
/// assert_eq!(
///     "shrug".parse::<OnFailure>().unwrap_err().to_string(),
///     r#""shrug": expected error, open, closed, or local with a share of the limit such as "local 1/4""#
/// );
/// # Ok::<(), tollgate::Error>(())
/// ```
impl FromStr for OnFailure {
    type Err = Error;

    fn from_str(text: &str) -> Result<OnFailure, Error> {
        let local = |share: &str| {
            let (part, of) = share.trim().split_once('/')?;
            Share::new(part.trim().parse().ok()?, of.trim().parse().ok()?).ok()
        };
        let found = match text {
            "error" => Some(OnFailure::Error),
            "open" => Some(OnFailure::Open),
            "closed" => Some(OnFailure::Closed),
            _ => text.strip_prefix("local").and_then(local).map(OnFailure::Local),
        };
        found.ok_or_else(|| {
            Error::request(format!("{text:?}: expected error, open, closed, or local with a share of the limit such as \"local 1/4\""))
        })
    }
}

/// A share of a limit, such as a quarter.
///
/// ```
/// use tollgate::shared::Share;
/// assert_eq!(Share::one_of(4)?, Share::new(25, 100)?);
/// assert!(Share::new(5, 4).is_err());
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    part: u32,
    of: u32,
}

impl Share {
    /// Creates the share `part / of`, for instance 1/4.
    ///
    /// # Errors
    /// Fails if `part` is zero or greater than `of`.
    ///
    /// See the example of [`Share`].
    pub fn new(part: u32, of: u32) -> Result<Share, Error> {
        if part == 0 || part > of {
            return Err(Error::request(format!(
                "share {part}/{of}: must be greater than 0 and at most 1"
            )));
        }
        let (mut a, mut b) = (part, of);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Ok(Share { part: part / a, of: of / a })
    }

    /// Creates the share of one of this many processes, all with equal shares.
    ///
    /// # Errors
    /// Fails if `processes` is 0.
    ///
    /// See the example of [`Share`].
    pub fn one_of(processes: u32) -> Result<Share, Error> {
        Share::new(1, processes)
    }

    /// Returns the share of a number of units, rounded down, but at least one unit.
    fn of_units(self, units: u64) -> u64 {
        let share = u128::from(units) * u128::from(self.part) / u128::from(self.of);
        u64::try_from(share).unwrap_or(u64::MAX).max(1)
    }

    /// Returns the limit with its quota and burst reduced to the share.
    fn of_limit(self, limit: &Limit) -> Result<Limit, Error> {
        if limit.is_ban() {
            return Ok(limit.clone());
        }
        let mut builder =
            Limit::new(self.of_units(limit.quota()), limit.period()).algorithm(limit.algorithm());
        if limit.algorithm().has_burst() {
            builder = builder.burst(self.of_units(limit.burst()));
        }
        if limit.charge_denied() {
            builder = builder.charge_denied();
        }
        if let Some(name) = limit.name() {
            builder = builder.name(name);
        }
        Ok(builder.build()?)
    }
}

/// The local limiter that decides while the store does not answer. It has the same limits, reduced
/// to a share, on a memory store of the [`Guard`](super::Guard).
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    store: Memory<Arc<dyn Clock>>,
    limits: Box<[Local]>,
}

#[derive(Clone, Debug)]
struct Local {
    prepared: Prepared,
    capacity: u64,
}

impl Fallback {
    pub(crate) fn new<'l>(
        store: &Memory<Arc<dyn Clock>>,
        namespace: &str,
        limits: impl IntoIterator<Item = &'l Limit>,
        share: Share,
    ) -> Result<Fallback, Error> {
        let local = |limit: &Limit| {
            let limit = share.of_limit(limit)?;
            let capacity = AnyMachine::new(&limit).capacity();
            Ok(Local { prepared: store.prepare(namespace, &limit)?, capacity })
        };
        let limits = limits.into_iter().map(local).collect::<Result<_, Error>>()?;
        Ok(Fallback { store: store.clone(), limits })
    }

    fn now(&self, at: Option<Timestamp>) -> Timestamp {
        at.unwrap_or_else(|| self.store.now())
    }

    pub(crate) fn items<'a>(
        &'a self,
        key: KeyRef<'a>,
        cost: u64,
    ) -> impl Iterator<Item = HitItem<'a, Prepared>> {
        self.limits.iter().map(move |local| HitItem { prepared: &local.prepared, key, cost })
    }

    /// Hits all limits or none.
    pub(crate) fn hit(&self, key: KeyRef<'_>, at: Option<Timestamp>, cost: u64) -> Vec<Outcome> {
        let items: Vec<_> = self.items(key, cost).collect();
        let outcomes = self.store.hit_together(&items, self.now(at));
        outcomes.into_iter().map(|outcome| outcome.with_source(Source::Fallback)).collect()
    }

    /// Executes operations. Each comes with the index of its limit.
    pub(crate) fn each(
        &self,
        key: KeyRef<'_>,
        at: Option<Timestamp>,
        ops: impl Iterator<Item = (usize, Op)>,
    ) -> Vec<Outcome> {
        let now = self.now(at);
        let apply = |(limit, op): (usize, Op)| {
            let outcome = self.store.apply(&self.limits[limit].prepared, key, now, op);
            outcome.with_source(Source::Fallback)
        };
        ops.map(apply).collect()
    }

    pub(crate) fn reset(&self, key: KeyRef<'_>) {
        let now = self.store.now();
        for local in &self.limits {
            let _ = self.store.apply(&local.prepared, key, now, Op::Reset);
        }
    }

    pub(crate) fn clear(&self) {
        self.limits.iter().for_each(|local| self.store.clear(&local.prepared));
    }

    /// Raises the local usage, so that the same part of the capacity is in use as in the store. Two
    /// callers at the same time may raise it too much, but never too little.
    pub(crate) fn warm(&self, key: KeyRef<'_>, at: Option<Timestamp>, decisions: &[Outcome]) {
        let now = self.now(at);
        for (local, decision) in self.limits.iter().zip(decisions) {
            let part = u128::from(decision.used()) * u128::from(local.capacity);
            let wanted = part.div_ceil(u128::from(decision.limit().max(1)));
            let wanted = u64::try_from(wanted).unwrap_or(u64::MAX).min(local.capacity);
            let used = self.store.apply(&local.prepared, key, now, Op::Peek(1)).used();
            if wanted > used {
                let _ = self.store.apply(&local.prepared, key, now, Op::Charge(wanted - used));
            }
        }
    }
}
