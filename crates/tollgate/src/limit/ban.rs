//! The settings that only a ban has: its length, whether it doubles, and the effect of attempts.

use std::time::Duration;

use super::{Algorithm, Kind, Limit, LimitBuilder, MAX_PERIOD, MIN_PERIOD};

/// The terms of a ban, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct BanTerms {
    /// The length of the first ban.
    pub(crate) length: u64,
    /// The length of the longest ban, if bans double.
    pub(crate) max: Option<u64>,
    /// Whether attempts of a banned key extend the ban.
    pub(crate) push: bool,
    /// The number of limits before the ban in its policy. Zero outside of a policy.
    pub(crate) watches: u8,
}

impl BanTerms {
    /// Returns the part of the identity that names these terms.
    pub(super) fn identity(self) -> String {
        let BanTerms { length, max, push, .. } = self;
        format!("{length}:{}:{}", max.unwrap_or(0), u8::from(push))
    }
}

/// The terms of a ban before they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BanSpans {
    length: Duration,
    max: Option<Duration>,
    push: bool,
}

impl From<BanSpans> for BanTerms {
    fn from(spans: BanSpans) -> BanTerms {
        // The conversion cannot fail: `check` accepts at most 100 years.
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(MAX_PERIOD);
        let BanSpans { length, max, push } = spans;
        BanTerms { length: micros(length), max: max.map(micros), push, watches: 0 }
    }
}

impl From<BanTerms> for BanSpans {
    fn from(terms: BanTerms) -> BanSpans {
        let BanTerms { length, max, push, .. } = terms;
        let span = Duration::from_micros;
        BanSpans { length: span(length), max: max.map(span), push }
    }
}

impl Limit {
    /// Starts to build a ban: after this many denials in `period` by the other limits of its policy,
    /// the key is denied for `length`.
    ///
    /// A policy has at most one ban, and at least one other limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Memory, Policy};
    ///
    /// let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
    /// let policy = Policy::new([Limit::per_minute(1), Limit::ban(2, minute, hour)])?;
    /// assert_eq!(policy.to_string(), "1/minute; ban after=2/minute for=1h");
    ///
    /// let limiter = Memory::new().limiter(policy)?;
    /// assert!(limiter.hit("mallory").allowed());
    /// assert!(!limiter.hit("mallory").banned(), "the first denial");
    /// let second = limiter.hit("mallory");
    /// assert!(second.banned());
    /// assert_eq!(second.retry_after(), Some(hour));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub const fn ban(after: u64, period: Duration, length: Duration) -> LimitBuilder {
        let mut ban = Limit::new(after, period).algorithm(Algorithm::Ban);
        ban.ban = Some(BanSpans { length, max: None, push: false });
        ban
    }

    /// Returns whether this is a ban.
    ///
    /// ```
    /// let policy: tollgate::Policy = "ban after=2/minute for=1h; 1/minute".parse()?;
    /// assert!(!policy.limits()[0].is_ban());
    /// assert!(policy.limits()[1].is_ban());
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn is_ban(&self) -> bool {
        matches!(self.rate.algorithm, Algorithm::Ban)
    }

    /// Makes this ban watch the limits before it in a policy.
    pub(crate) fn watch(&mut self, limits: &[Limit]) {
        let Some(ban) = &mut self.rate.ban else { return };
        ban.watches = u8::try_from(limits.len()).unwrap_or(u8::MAX);
        // Lengths keep the identities apart, because a name may contain any character.
        let framed = limits.iter().map(Limit::identity).map(|id| format!("{}:{id}", id.len()));
        self.watched = Some(framed.collect::<String>().into());
    }
}

impl LimitBuilder {
    /// Makes each ban twice as long as the one before, up to `max`. Only a ban has this.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    ///
    /// let seconds = Duration::from_secs;
    /// let ban = Limit::ban(10, seconds(60), seconds(3600)).doubling(seconds(86_400)).build()?;
    /// assert_eq!(ban.to_string(), "ban after=10/minute for=1h doubling max=1d");
    /// assert!(Limit::ban(10, seconds(60), seconds(3600)).doubling(seconds(60)).build().is_err());
    /// assert!(Limit::per_minute(10).doubling(seconds(60)).build().is_err());
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn doubling(mut self, max: Duration) -> Self {
        let spans = self.spans();
        self.ban = Some(BanSpans { max: Some(max), ..spans });
        self
    }

    /// Makes every attempt of a banned key start the wait anew. Only a ban has this.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    ///
    /// let seconds = Duration::from_secs;
    /// let ban = Limit::ban(10, seconds(60), seconds(3600)).push().build()?;
    /// assert_eq!(ban.to_string(), "ban after=10/minute for=1h push");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub const fn push(mut self) -> Self {
        let spans = self.spans();
        self.ban = Some(BanSpans { push: true, ..spans });
        self
    }

    const fn spans(&self) -> BanSpans {
        match self.ban {
            Some(spans) => spans,
            None => BanSpans { length: Duration::ZERO, max: None, push: false },
        }
    }

    /// Returns the first rule about bans that is broken, with the value.
    pub(super) const fn broken_ban(&self) -> Option<(Kind, u128)> {
        let is_ban = matches!(self.algorithm, Algorithm::Ban);
        let Some(BanSpans { length, max, .. }) = self.ban else {
            return if is_ban { Some((Kind::BanWithoutLength, self.quota as u128)) } else { None };
        };
        let nanos = length.as_nanos();
        let max = match max {
            Some(max) => max.as_nanos(),
            None => nanos,
        };
        if !is_ban {
            Some((Kind::BanOption, nanos))
        } else if nanos < (MIN_PERIOD as u128) * 1000 || nanos > (MAX_PERIOD as u128) * 1000 {
            Some((Kind::BanLength, nanos))
        } else if !nanos.is_multiple_of(1000) {
            Some((Kind::BanLengthFraction, nanos))
        } else if max < nanos || max > (MAX_PERIOD as u128) * 1000 {
            Some((Kind::BanMax, max))
        } else if !max.is_multiple_of(1000) {
            Some((Kind::BanMaxFraction, max))
        } else {
            None
        }
    }
}
