//! The answer of several limits on one key.

use std::time::Duration;

use crate::decision::{Decision, Receipt};
use crate::policy::MAX_LIMITS;

/// The answer of a policy: all of its limits were charged, or none was.
///
/// ```
/// use tollgate::Memory;
///
/// let limiter = Memory::new().policy_limiter("2/second; 3/minute")?;
/// let decision = limiter.hit("user:42");
/// assert!(decision.allowed());
/// assert_eq!(decision.outcomes().len(), 2);
/// assert_eq!(decision.headline().remaining(), 1);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PolicyDecision {
    outcomes: [Decision; MAX_LIMITS],
    len: usize,
}

impl PolicyDecision {
    /// Of one to eight decisions on one key; `None` of any other number. For who asks several keys
    /// at once and sorts the outcomes.
    ///
    /// ```
    /// use tollgate::{Memory, PolicyDecision};
    /// let limiter = Memory::new().limiter("2/second")?;
    /// let decision = limiter.hit("a");
    /// assert!(PolicyDecision::of(&[decision]).is_some_and(|policy| policy.allowed()));
    /// assert!(PolicyDecision::of(&[]).is_none());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn of(decisions: &[Decision]) -> Option<PolicyDecision> {
        let first = *decisions.first()?;
        let mut outcomes = [first; MAX_LIMITS];
        outcomes.get_mut(..decisions.len())?.copy_from_slice(decisions);
        Some(PolicyDecision { outcomes, len: decisions.len() })
    }

    /// Of `first` and what else is [pushed](PolicyDecision::push): no list on the heap.
    pub(crate) fn new(first: Decision) -> PolicyDecision {
        PolicyDecision { outcomes: [first; MAX_LIMITS], len: 1 }
    }

    pub(crate) fn push(&mut self, decision: Decision) {
        self.outcomes[self.len] = decision;
        self.len += 1;
    }

    /// Whether every limit let it pass.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().policy_limiter("1/second; 3/minute")?;
    /// assert!(limiter.hit("a").allowed());
    /// assert!(!limiter.hit("a").allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.outcomes().iter().all(Decision::allowed)
    }

    /// What each limit said, in the order of the policy. `allowed` of a single outcome tells what
    /// that limit alone says.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().policy_limiter("1/second; 3/minute")?;
    /// assert_eq!(limiter.hit("a").outcomes()[1].remaining(), 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn outcomes(&self) -> &[Decision] {
        &self.outcomes[..self.len]
    }

    /// The outcome to show: the refusing limit with the longest wait, else the one with the least
    /// remaining; the first of equals.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().policy_limiter("9/second; 3/minute")?;
    /// assert_eq!(limiter.hit("a").headline().limit(), 3);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn headline(&self) -> &Decision {
        &self.outcomes[self.headline_index()]
    }

    /// Which limit of the policy the headline is.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().policy_limiter("9/second; 3/minute")?;
    /// let index = limiter.hit("a").headline_index();
    /// assert_eq!(limiter.policy().limits()[index].to_string(), "3/minute");
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn headline_index(&self) -> usize {
        PolicyDecision::headline_of(self.outcomes())
    }

    /// The place of the headline among outcomes that were decided together, whatever their keys; 0
    /// of none.
    ///
    /// ```
    /// # use tollgate::{Memory, PolicyDecision};
    /// let limiter = Memory::new().limiter("2/second")?;
    /// let outcomes = [limiter.hit("a"), limiter.hit_n("b", 2)];
    /// assert_eq!(PolicyDecision::headline_of(&outcomes), 1);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn headline_of(outcomes: &[Decision]) -> usize {
        // A wait without end is the longest.
        let wait = |d: &Decision| d.retry_after().map_or((1, Duration::ZERO), |wait| (0, wait));
        let refusing = (0..outcomes.len()).filter(|index| !outcomes[*index].allowed());
        // `max_by_key` takes the last of equals, so walk backwards.
        let longest = refusing.rev().max_by_key(|index| wait(&outcomes[*index]));
        let least = || (0..outcomes.len()).min_by_key(|index| outcomes[*index].remaining());
        longest.or_else(least).unwrap_or(0)
    }

    /// How long to wait: the headline's.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().policy_limiter("9/second; 3/minute")?;
    /// assert_eq!(limiter.hit("a").retry_after(), Some(Duration::ZERO));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.headline().retry_after()
    }

    /// What each limit was charged, for a refund, in the order of the policy.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().policy_limiter("9/second; 3/minute")?;
    /// assert_eq!(limiter.hit("a").receipts().count(), 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn receipts(&self) -> impl Iterator<Item = Receipt> + '_ {
        self.outcomes().iter().map(Decision::receipt)
    }
}
