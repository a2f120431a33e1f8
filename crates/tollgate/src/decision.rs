//! The answer of a limiter: the outcome of each of its limits.

use std::slice;
use std::time::Duration;

use crate::algorithm::Fields;
use crate::error::Error;
use crate::outcome::{Outcome, Receipt, Source};
use crate::time::Timestamp;

/// The answer of a limiter. A hit has charged all of its limits or none.
///
/// A decision has the [outcome](Decision::outcomes) of each limit, and a
/// [headline](Decision::headline): the outcome to show. Methods that return a single figure return
/// the figure of the headline. Figures are computed when they are read.
///
/// The compiler warns if the result of a hit, take or peek is not used. The result of methods such
/// as `charge` may be ignored:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # let limiter = tollgate::Memory::new().limiter("2/minute").unwrap();
/// limiter.hit("user:42");
/// ```
///
/// ```
/// #![deny(unused_must_use)]
/// # let limiter = tollgate::Memory::new().limiter("2/minute").unwrap();
/// limiter.charge("user:42", 1);
/// ```
///
/// ```
/// use tollgate::{Limit, Memory};
///
/// let limiter = Memory::new().limiter(Limit::per_minute(2))?;
/// let decision = limiter.hit("user:42");
/// assert!(decision.allowed());
/// assert_eq!((decision.limit(), decision.used(), decision.remaining()), (2, 1, 1));
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decision {
    headline: Outcome,
    index: usize,
    /// The outcomes of several limits. It is `None` for a single limit, whose outcome is the
    /// headline, so that no memory is allocated.
    all: Option<Box<[Outcome]>>,
}

/// Makes the decision of a single limit.
///
/// ```
/// use tollgate::{Decision, Direct};
/// let decision = Decision::from(Direct::new("2/second")?.hit());
/// assert!(decision.allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
impl From<Outcome> for Decision {
    #[inline(always)]
    fn from(outcome: Outcome) -> Decision {
        Decision { headline: outcome, index: 0, all: None }
    }
}

/// The outcomes of several limits, and the index of the headline.
pub(crate) struct Group {
    headline: usize,
    outcomes: Box<[Outcome]>,
}

impl Group {
    pub(crate) fn new(outcomes: Vec<Outcome>) -> Group {
        Group { headline: headline_index(&outcomes), outcomes: outcomes.into() }
    }
}

impl From<Group> for Decision {
    #[inline(always)]
    fn from(Group { headline: index, outcomes }: Group) -> Decision {
        Decision { headline: outcomes[index], index, all: Some(outcomes) }
    }
}

impl Decision {
    /// Returns the decision that has these outcomes, or `None` if there are none. It is for callers
    /// that decide several limits or keys in one call and sort the outcomes themselves.
    ///
    /// ```
    /// use tollgate::{Decision, Direct};
    /// let (many, few) = (Direct::new("9/second")?.hit(), Direct::new("2/second")?.hit());
    /// let decision = Decision::from_outcomes(vec![many, few]);
    /// assert_eq!(decision.map(|decision| decision.remaining()), Some(1));
    /// assert!(Decision::from_outcomes(vec![]).is_none());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn from_outcomes(outcomes: Vec<Outcome>) -> Option<Decision> {
        match outcomes[..] {
            [] => None,
            [headline] => Some(headline.into()),
            _ => Some(Group::new(outcomes).into()),
        }
    }

    /// Returns whether every limit allows the hit.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().limiter("1/second; 3/minute")?;
    /// assert!(limiter.hit("a").allowed());
    /// assert!(!limiter.hit("a").allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn allowed(&self) -> bool {
        // If any outcome denies, the headline is one that denies.
        self.headline.allowed()
    }

    /// Returns the outcome of each limit, in the order of the limits. `allowed` of one outcome says
    /// whether that limit alone would allow the hit.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().limiter("1/second; 3/minute")?;
    /// assert_eq!(limiter.hit("a").outcomes()[1].remaining(), 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline]
    pub fn outcomes(&self) -> &[Outcome] {
        match &self.all {
            Some(all) => all,
            None => slice::from_ref(&self.headline),
        }
    }

    /// Returns the outcome to show. If limits deny, it is the one of them with the longest wait,
    /// otherwise the outcome with the fewest units remaining. If several are equal, it is the first
    /// of them.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().limiter("9/second; 3/minute")?;
    /// assert_eq!(limiter.hit("a").headline().limit(), 3);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline]
    pub fn headline(&self) -> &Outcome {
        &self.headline
    }

    /// Returns the index of the headline among the [outcomes](Decision::outcomes).
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().limiter("9/second; 3/minute")?;
    /// let index = limiter.hit("a").headline_index();
    /// assert_eq!(limiter.policy().limits()[index].to_string(), "3/minute");
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn headline_index(&self) -> usize {
        self.index
    }

    /// Returns whether the key is banned: see [`Limit::ban`](crate::Limit::ban). Such a decision is
    /// a denial, and the ban is its headline.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().limiter("1/minute; ban after=2/minute for=1h")?;
    /// assert!(!limiter.hit("a").banned());
    /// assert!(!limiter.hit("a").banned(), "the first denial");
    /// let banned = limiter.hit("a");
    /// assert!(banned.banned() && !banned.allowed());
    /// assert_eq!(banned.retry_after(), Some(Duration::from_secs(3600)));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn banned(&self) -> bool {
        self.headline.banned()
    }

    /// Returns the index of the limit to name in an answer: that of the headline, and for a ban, which
    /// is no quota, that of the limit before it.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().limiter("9/minute; ban after=1/minute for=1h")?;
    /// let banned = limiter.hit_n("a", 10);
    /// assert_eq!((banned.headline_index(), banned.named_index()), (1, 0));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn named_index(&self) -> usize {
        if self.banned() { self.index.saturating_sub(1) } else { self.index }
    }

    /// Returns all figures of the headline. This is cheaper than calls of several single methods,
    /// each of which computes its figure anew.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// let fields = limiter.hit("a").fields();
    /// assert_eq!((fields.limit, fields.remaining, fields.used), (3, 2, 1));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn fields(&self) -> Fields {
        self.headline.fields()
    }

    /// Returns the capacity: the quota, or the burst of a bucket.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(1).burst(5))?;
    /// assert_eq!(limiter.hit("a").limit(), 5);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn limit(&self) -> u64 {
        self.headline.limit()
    }

    /// Returns the largest cost that would still pass now, after this decision.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit("a").remaining(), 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.headline.remaining()
    }

    /// Returns the units in use, rounded up. `used + remaining` is the limit, unless more was
    /// charged than the limit allows.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit_n("a", 2).used(), 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn used(&self) -> u64 {
        self.headline.used()
    }

    /// Returns how long to wait until this cost passes if there is no other hit: zero if it is
    /// allowed, `None` if it can never pass. It is exact: a hit one microsecond earlier is denied,
    /// and a hit at that time is admitted.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limit, Memory, Timestamp};
    /// let limiter = Memory::new().limiter(Limit::per_minute(1))?;
    /// let now = Timestamp::from_micros(1_000);
    /// assert_eq!(limiter.at(now).hit("a").retry_after(), Some(Duration::ZERO));
    /// assert_eq!(limiter.at(now).hit("a").retry_after(), Some(Duration::from_secs(60)));
    /// assert_eq!(limiter.at(now).hit_n("a", 2).retry_after(), None);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn retry_after(&self) -> Option<Duration> {
        self.headline.retry_after()
    }

    /// Returns how long it takes until the key is fresh again if there is no other hit.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limit, Memory, Timestamp};
    /// let limiter = Memory::new().limiter(Limit::per_minute(2))?;
    /// let decision = limiter.at(Timestamp::from_micros(1_000)).hit("a");
    /// assert_eq!(decision.reset_after(), Duration::from_secs(30));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn reset_after(&self) -> Duration {
        self.headline.reset_after()
    }

    /// Returns the time at which the key is fresh again if there is no other hit. `None` if it is
    /// already fresh.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory, Timestamp};
    /// let limiter = Memory::new().limiter(Limit::per_minute(2))?;
    /// assert_eq!(limiter.peek("a").expires_at(), None);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.headline.expires_at()
    }

    /// Returns the units that this call charged: the cost of an allowed hit, the granted units of a
    /// take, or zero for a denial. With `charge-denied` a denied hit may charge units too.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// assert_eq!(limiter.take("a", 5).charged(), 3);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn charged(&self) -> u64 {
        self.headline.charged()
    }

    /// Returns the time for which the decision was made.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory, Timestamp};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// assert_eq!(limiter.at(Timestamp::from_micros(7)).hit("a").now(), Timestamp::from_micros(7));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.headline.now()
    }

    /// Returns the source of the headline.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory, Source};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit("a").source(), Source::Store);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn source(&self) -> Source {
        self.headline.source()
    }

    /// Returns how many units may have been admitted beyond the limit when this was decided: see
    /// [`Outcome::bound`].
    ///
    /// ```
    /// # use tollgate::{Limit, Memory};
    /// let limiter = Memory::new().limiter(Limit::per_minute(3))?;
    /// assert_eq!(limiter.hit("a").bound(), Some(0));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn bound(&self) -> Option<u64> {
        self.headline.bound()
    }

    /// Returns the receipts of all limits, in their order, for a refund.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// let limiter = Memory::new().limiter("9/second; 3/minute")?;
    /// assert_eq!(limiter.hit("a").receipts().count(), 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn receipts(&self) -> impl Iterator<Item = Receipt> + '_ {
        self.outcomes().iter().map(Outcome::receipt)
    }

    /// Returns the receipts, grouped by the items of an all-or-nothing hit. `limits` is the number
    /// of limits of each item.
    pub(crate) fn receipts_by_item(&self, limits: &[usize]) -> Result<Vec<Vec<Receipt>>, Error> {
        let count: usize = limits.iter().sum();
        if self.outcomes().len() != count {
            return Err(Error::request(format!(
                "a decision on {} limits cannot be refunded with these items: they have {count} limits",
                self.outcomes().len()
            )));
        }
        let mut receipts = self.receipts();
        Ok(limits.iter().map(|count| receipts.by_ref().take(*count).collect()).collect())
    }
}

fn headline_index(outcomes: &[Outcome]) -> usize {
    // A denial without a wait never passes, so it counts as the longest wait.
    let wait = |outcome: &Outcome| outcome.retry_after().map_or((1, Duration::ZERO), |w| (0, w));
    let longest = |belongs: fn(&Outcome) -> bool| {
        let denying = (0..outcomes.len()).filter(|index| belongs(&outcomes[*index]));
        // `max_by_key` returns the last of equal elements, so iterate backwards.
        denying.rev().max_by_key(|index| wait(&outcomes[*index]))
    };
    // While a key is banned, the other limits were not asked.
    let denying = longest(Outcome::banned).or_else(|| longest(|outcome| !outcome.allowed()));
    let counting = || (0..outcomes.len()).filter(|index| !outcomes[*index].is_ban());
    let least = || counting().min_by_key(|index| outcomes[*index].remaining());
    denying.or_else(least).unwrap_or(0)
}

/// Returns the largest cost that all limits of a policy would pass.
pub(crate) fn room(outcomes: &[Outcome]) -> u64 {
    if outcomes.iter().any(Outcome::banned) {
        return 0;
    }
    let counting = outcomes.iter().filter(|outcome| !outcome.is_ban());
    counting.map(Outcome::remaining).min().unwrap_or_default()
}

/// Returns the units in use that a decision on the limits without the ban shows. A ban has no units.
pub(crate) fn usage(outcomes: &[Outcome]) -> u64 {
    let counting = outcomes.iter().filter(|outcome| !outcome.is_ban());
    Decision::from_outcomes(counting.copied().collect()).map_or(0, |decision| decision.used())
}
