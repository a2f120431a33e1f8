//! One limit on the requests of a log: who would have been denied.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tollgate::{Error, Limiter, ManualClock, Memory, Policy, Timestamp};

use crate::keys::MAX_KEYS;
use crate::order::Hit;
use crate::timeline::Timeline;

/// What happens to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It has these limits, and its requests cost so many times what the log says.
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
    /// What reports call it.
    pub name: String,
    choose: Arc<Choose>,
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
        let usual = policy.clone();
        let choose = Arc::new(move |_: &str| Treatment::Limited(policy.clone(), 1));
        Candidate { name: usual.to_string(), choose, usual }
    }

    /// Limits that depend on the key, as a rule with overrides has them.
    #[must_use]
    pub fn choosing(
        name: impl Into<String>,
        usual: Policy,
        choose: impl Fn(&str) -> Treatment + Send + Sync + 'static,
    ) -> Candidate {
        Candidate { name: name.into(), choose: Arc::new(choose), usual }
    }
}

/// The denials of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyDenials {
    /// How many of its requests were denied.
    pub denied: u64,
    /// The first and the last time, in microseconds since the epoch.
    pub first: u64,
    /// The last time.
    pub last: u64,
    /// The most denials in a row.
    pub longest_run: u64,
    run: u64,
}

/// What a candidate did to the requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// All requests.
    pub requests: u64,
    /// Those that were denied.
    pub denied: u64,
    /// Units of all requests.
    pub units: u64,
    /// Units of those that were denied.
    pub denied_units: u64,
    /// Over time.
    pub timeline: Timeline,
    /// By the number of the key: only those that were denied at least once.
    pub(crate) keys: HashMap<u32, KeyDenials, foldhash::fast::RandomState>,
}

/// A candidate on a store of its own, whose clock is the log's.
pub(crate) struct Run {
    clock: Arc<ManualClock>,
    store: Memory<Arc<ManualClock>>,
    policies: Vec<(Policy, Limiter<Memory<Arc<ManualClock>>>)>,
    /// What to do with each key, by its number.
    treatments: Vec<Option<Known>>,
    tally: Tally,
}

#[derive(Clone, Copy)]
enum Known {
    Limited(u32, u64),
    Exempt,
    Blocked,
}

impl Run {
    pub(crate) fn new() -> Run {
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        let store = Memory::builder().clock(Arc::clone(&clock)).max_keys(MAX_KEYS).build();
        let (policies, treatments, tally) = (Vec::new(), Vec::new(), Tally::default());
        Run { clock, store, policies, treatments, tally }
    }

    pub(crate) fn into_tally(self) -> Tally {
        self.tally
    }

    pub(crate) fn hit(
        &mut self,
        candidate: &Candidate,
        name: &str,
        hit: Hit,
        at: u64,
    ) -> Result<(), Error> {
        let at_log = Timestamp::from_micros(at);
        self.clock.set(at_log);
        let allowed = match self.treatment(candidate, name, hit.key)? {
            Known::Exempt => true,
            Known::Blocked => false,
            Known::Limited(policy, price) => {
                let (_, limiter) = &self.policies[policy as usize];
                let cost = hit.cost.saturating_mul(price);
                limiter.at(at_log).hit_n(hit.key, cost).allowed()
            }
        };
        let tally = &mut self.tally;
        tally.requests += 1;
        tally.units = tally.units.saturating_add(hit.cost);
        tally.timeline.count(at, !allowed);
        if allowed {
            if let Some(key) = tally.keys.get_mut(&hit.key) {
                key.run = 0;
            }
            return Ok(());
        }
        tally.denied += 1;
        tally.denied_units = tally.denied_units.saturating_add(hit.cost);
        let first = KeyDenials { first: at, ..KeyDenials::default() };
        let key = tally.keys.entry(hit.key).or_insert(first);
        key.denied += 1;
        key.last = at;
        key.run += 1;
        key.longest_run = key.longest_run.max(key.run);
        Ok(())
    }

    fn treatment(&mut self, candidate: &Candidate, name: &str, key: u32) -> Result<Known, Error> {
        let index = key as usize;
        if let Some(Some(known)) = self.treatments.get(index) {
            return Ok(*known);
        }
        let known = match (candidate.choose)(name) {
            Treatment::Exempt => Known::Exempt,
            Treatment::Blocked => Known::Blocked,
            Treatment::Limited(policy, price) => {
                let found = self.policies.iter().position(|(known, _)| *known == policy);
                let index = match found {
                    Some(index) => index,
                    None => {
                        let limiter = self.store.limiter(policy.clone())?;
                        self.policies.push((policy, limiter));
                        self.policies.len() - 1
                    }
                };
                Known::Limited(u32::try_from(index).unwrap_or(u32::MAX), price)
            }
        };
        if index >= self.treatments.len() {
            self.treatments.resize(index + 1, None);
        }
        self.treatments[index] = Some(known);
        Ok(known)
    }
}
