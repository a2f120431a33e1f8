//! One limit on the requests of a log, and the keys that it would have denied.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Error, Limiter, ManualClock, Memory, Policy, Timestamp};
use tollgate_report::Timeline;

use crate::order::Hit;

/// The treatment of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It has these limits, and the cost in the log is multiplied by this factor.
    Limited(Policy, u64),
    /// It passes.
    Exempt,
    /// It is denied.
    Blocked,
}

type Choose = dyn Fn(&str) -> Treatment + Send + Sync;

/// A limit to try on a log.
#[derive(Clone)]
pub struct Candidate {
    /// The name in reports.
    pub name: String,
    /// The treatment of each key, where it differs.
    choose: Option<Arc<Choose>>,
    /// The limits of most keys, for the demand in their periods.
    pub(crate) usual: Policy,
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Candidate {
    /// The same limits for every key.
    ///
    /// ```
    /// let candidate = tollgate_replay::Candidate::new("100/minute".parse()?);
    /// assert_eq!(candidate.name, "100/minute");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn new(policy: Policy) -> Candidate {
        Candidate { name: policy.to_string(), choose: None, usual: policy }
    }

    /// Limits that depend on the key, as a rule with overrides has them.
    #[must_use]
    pub fn choosing(
        name: impl Into<String>,
        usual: Policy,
        choose: impl Fn(&str) -> Treatment + Send + Sync + 'static,
    ) -> Candidate {
        Candidate { name: name.into(), choose: Some(Arc::new(choose)), usual }
    }
}

/// The denials of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyDenials {
    /// How many of its requests were denied.
    pub denied: u64,
    /// The time of the first denial, in microseconds since the epoch.
    pub first: u64,
    /// The time of the last one.
    pub last: u64,
    /// The most denials in a row.
    pub longest_run: u64,
    run: u64,
}

/// The results of a candidate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) denied: u64,
    pub(crate) units: u64,
    pub(crate) denied_units: u64,
    pub(crate) timeline: Timeline,
    /// The denials by the number of the key: only keys that were denied at least once.
    pub(crate) keys: HashMap<u32, KeyDenials, foldhash::fast::RandomState>,
}

/// The decision on a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    pub(crate) allowed: bool,
    /// When the request would have passed; `None` if it passed, or never would.
    pub(crate) retry_after: Option<Duration>,
}

/// A candidate on its own store, whose clock is the log's.
pub(crate) struct Run {
    clock: Arc<ManualClock>,
    store: Memory<Arc<ManualClock>>,
    policies: Vec<(Policy, Limiter<Memory<Arc<ManualClock>>>)>,
    /// The treatment of each key, by its number, where the candidate chooses.
    treatments: Vec<Option<KeyTreatment>>,
    tally: Tally,
}

#[derive(Clone, Copy)]
enum KeyTreatment {
    Limited { policy: u32, price: u64 },
    Exempt,
    Blocked,
}

impl Run {
    /// Creates a run with a store for at most `max_keys` keys.
    pub(crate) fn new(max_keys: usize) -> Run {
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        let store = Memory::builder().clock(Arc::clone(&clock)).max_keys(max_keys).build();
        let (policies, treatments, tally) = (Vec::new(), Vec::new(), Tally::default());
        Run { clock, store, policies, treatments, tally }
    }

    pub(crate) fn into_tally(self) -> Tally {
        self.tally
    }

    pub(crate) fn hit<'k>(
        &mut self,
        candidate: &Candidate,
        name: impl Fn() -> &'k str,
        hit: Hit,
        at: u64,
    ) -> Result<Verdict, Error> {
        let now = Timestamp::from_micros(at);
        self.clock.set(now);
        let verdict = match self.treatment(candidate, name, hit.key)? {
            KeyTreatment::Exempt => Verdict { allowed: true, retry_after: None },
            KeyTreatment::Blocked => Verdict { allowed: false, retry_after: None },
            KeyTreatment::Limited { policy, price } => {
                let (_, limiter) = &self.policies[policy as usize];
                let decision = limiter.at(now).hit_n(hit.key, hit.cost.saturating_mul(price));
                let allowed = decision.allowed();
                let retry_after = if allowed { None } else { decision.retry_after() };
                Verdict { allowed, retry_after }
            }
        };
        self.count(hit, at, verdict.allowed);
        Ok(verdict)
    }

    fn count(&mut self, hit: Hit, at: u64, allowed: bool) {
        let tally = &mut self.tally;
        tally.requests += 1;
        tally.units = tally.units.saturating_add(hit.cost);
        tally.timeline.count(at, !allowed);
        if allowed {
            if let Some(key) = tally.keys.get_mut(&hit.key) {
                key.run = 0;
            }
            return;
        }
        tally.denied += 1;
        tally.denied_units = tally.denied_units.saturating_add(hit.cost);
        let first = KeyDenials { first: at, ..KeyDenials::default() };
        let key = tally.keys.entry(hit.key).or_insert(first);
        key.denied += 1;
        key.last = at;
        key.run += 1;
        key.longest_run = key.longest_run.max(key.run);
    }

    fn treatment<'k>(
        &mut self,
        candidate: &Candidate,
        name: impl Fn() -> &'k str,
        key: u32,
    ) -> Result<KeyTreatment, Error> {
        let Some(choose) = &candidate.choose else {
            if self.policies.is_empty() {
                self.limited(candidate.usual.clone(), 1)?;
            }
            return Ok(KeyTreatment::Limited { policy: 0, price: 1 });
        };
        let index = key as usize;
        if let Some(Some(known)) = self.treatments.get(index) {
            return Ok(*known);
        }
        let known = match choose(name()) {
            Treatment::Exempt => KeyTreatment::Exempt,
            Treatment::Blocked => KeyTreatment::Blocked,
            Treatment::Limited(policy, price) => self.limited(policy, price)?,
        };
        if index >= self.treatments.len() {
            self.treatments.resize(index + 1, None);
        }
        self.treatments[index] = Some(known);
        Ok(known)
    }

    fn limited(&mut self, policy: Policy, price: u64) -> Result<KeyTreatment, Error> {
        let found = self.policies.iter().position(|(known, _)| *known == policy);
        let index = match found {
            Some(index) => index,
            None => {
                let limiter = self.store.limiter(policy.clone())?;
                self.policies.push((policy, limiter));
                self.policies.len() - 1
            }
        };
        Ok(KeyTreatment::Limited { policy: u32::try_from(index).unwrap_or(u32::MAX), price })
    }
}
