//! Several limits on the same key, decided together.

use std::slice;

use crate::error::Error;
use crate::limit::{Algorithm, Limit, LimitBuilder, LimitError};

/// The largest number of limits in a policy. Eight are enough for two limits each per second,
/// minute, hour and day, and few enough that every store can decide them in one step.
///
/// ```
/// use tollgate::{Limit, Policy};
/// assert!(Policy::new((1..=8).map(Limit::per_second)).is_ok());
/// assert!(Policy::new((1..=9).map(Limit::per_second)).is_err());
/// ```
pub const MAX_LIMITS: usize = 8;

/// One to eight limits on the same key, decided together: all are charged or none is.
///
/// ```
/// use tollgate::{Limit, Policy};
///
/// let policy = Policy::new([Limit::per_second(5), Limit::per_minute(100)])?;
/// assert_eq!(policy, "5/second; 100/minute".parse()?);
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    limits: Box<[Limit]>,
}

impl Policy {
    /// Creates a policy of these limits, builders or texts.
    ///
    /// # Errors
    /// Fails if a limit is not valid, if there is no limit or more than [`MAX_LIMITS`], or if two
    /// limits have the same [identity](Limit::identity): they would share one counter and charge it
    /// twice. Fails too if there are two bans, or a ban and no other limit.
    ///
    /// ```
    /// use tollgate::{Limit, Policy};
    ///
    /// assert!(Policy::new(["5/second", "100/minute"]).is_ok());
    ///
    /// let error = Policy::new([Limit::per_second(5), Limit::per_second(5)]).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     r#"limit "5/second" twice in one policy: each may appear once"#
    /// );
    /// ```
    pub fn new<L>(limits: impl IntoIterator<Item = L>) -> Result<Policy, LimitError>
    where
        L: TryInto<Limit>,
        LimitError: From<L::Error>,
    {
        let limits = limits.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Policy::checked(limits).map_err(|(_, error)| error)
    }

    /// Creates a policy, or returns an error with the index of the limit that breaks a rule.
    pub(crate) fn checked(mut limits: Vec<Limit>) -> Result<Policy, (usize, LimitError)> {
        if limits.is_empty() || limits.len() > MAX_LIMITS {
            return Err((MAX_LIMITS, LimitError::count(limits.len())));
        }
        let mut bans = limits.iter().enumerate().filter(|(_, limit)| limit.is_ban());
        if let Some((index, ban)) = bans.next() {
            if let Some((second, ban)) = bans.next() {
                return Err((second, LimitError::second_ban(ban)));
            }
            if limits.len() == 1 {
                return Err((index, LimitError::only_ban(ban)));
            }
            // A ban may be written anywhere. It is kept after the limits that it watches.
            limits[index..].rotate_left(1);
            if let Some((ban, watched)) = limits.split_last_mut() {
                ban.watch(watched);
            }
        }
        let identities: Vec<String> = limits.iter().map(Limit::identity).collect();
        for (index, limit) in limits.iter().enumerate() {
            if identities[..index].contains(&identities[index]) {
                return Err((index, LimitError::twice(limit)));
            }
        }
        Ok(Policy { limits: limits.into() })
    }

    /// Returns an error if a limit counts holds, and not hits.
    pub(crate) fn check_for_hits(&self) -> Result<(), Error> {
        let of_holds = self.limits.iter().find(|l| l.algorithm() == Algorithm::Concurrent);
        of_holds.map_or(Ok(()), |limit| Err(Error::counts_holds(limit)))
    }

    pub(crate) fn split_first(&self) -> (&Limit, &[Limit]) {
        let Some(limits) = self.limits.split_first() else {
            unreachable!("a policy has at least one limit")
        };
        limits
    }

    /// Returns the limits, in the order in which they were given. A ban is always the last.
    ///
    /// ```
    /// use tollgate::{Limit, Policy};
    ///
    /// let policy = Policy::new([Limit::per_second(5), Limit::per_minute(100)])?;
    /// assert_eq!(policy.limits()[1].quota(), 100);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }
}

/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Policy};
///
/// let limit = Limit::per_second(5).build()?;
/// assert_eq!(Policy::try_from(limit.clone())?.limits(), [limit]);
///
/// let minute = Duration::from_secs(60);
/// let ban = Limit::ban(3, minute, minute).build()?;
/// assert_eq!(
///     Policy::try_from(ban).unwrap_err().to_string(),
///     r#""ban after=3/minute for=1m" without another limit: a ban counts the denials of at least one other limit of its policy"#
/// );
/// # Ok::<(), tollgate::LimitError>(())
/// ```
impl TryFrom<Limit> for Policy {
    type Error = LimitError;

    fn try_from(limit: Limit) -> Result<Policy, LimitError> {
        Policy::checked(vec![limit]).map_err(|(_, error)| error)
    }
}

/// ```
/// use tollgate::{Limit, Policy};
///
/// assert!(Policy::try_from(Limit::per_second(5)).is_ok());
/// assert!(Policy::try_from(Limit::per_second(0)).is_err());
/// ```
impl TryFrom<LimitBuilder> for Policy {
    type Error = LimitError;

    fn try_from(limit: LimitBuilder) -> Result<Policy, LimitError> {
        limit.build().and_then(Policy::try_from)
    }
}

impl TryFrom<&Limit> for Policy {
    type Error = LimitError;

    fn try_from(limit: &Limit) -> Result<Policy, LimitError> {
        limit.clone().try_into()
    }
}

/// Lets functions that take a policy accept a reference too.
impl From<&Policy> for Policy {
    fn from(policy: &Policy) -> Policy {
        policy.clone()
    }
}

/// ```
/// use tollgate::{Limit, Memory};
///
/// let limits = [Limit::per_second(5), Limit::per_minute(100)];
/// assert!(Memory::new().limiter(limits)?.hit("alice").allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
impl<L, const N: usize> TryFrom<[L; N]> for Policy
where
    L: TryInto<Limit>,
    LimitError: From<L::Error>,
{
    type Error = LimitError;

    fn try_from(limits: [L; N]) -> Result<Policy, LimitError> {
        Policy::new(limits)
    }
}

/// ```
/// use tollgate::Memory;
///
/// let limits = vec![String::from("5/second"), String::from("100/minute")];
/// assert!(Memory::new().limiter(limits)?.hit("alice").allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
impl<L> TryFrom<Vec<L>> for Policy
where
    L: TryInto<Limit>,
    LimitError: From<L::Error>,
{
    type Error = LimitError;

    fn try_from(limits: Vec<L>) -> Result<Policy, LimitError> {
        Policy::new(limits)
    }
}

/// ```
/// let policy: tollgate::Policy = "5/second; 100/minute".parse()?;
/// let mut quotas = Vec::new();
/// for limit in &policy {
///     quotas.push(limit.quota());
/// }
/// assert_eq!(quotas, [5, 100]);
/// # Ok::<(), tollgate::LimitError>(())
/// ```
impl<'a> IntoIterator for &'a Policy {
    type Item = &'a Limit;
    type IntoIter = slice::Iter<'a, Limit>;

    fn into_iter(self) -> Self::IntoIter {
        self.limits.iter()
    }
}
