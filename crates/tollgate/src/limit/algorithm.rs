//! The names of the algorithms.

use std::fmt;

/// How hits are counted. The guide "choose an algorithm" helps to choose; every module in
/// [`crate::algorithm`] explains its algorithm.
///
/// ```
/// use tollgate::Algorithm;
/// assert_eq!(Algorithm::default(), Algorithm::Gcra);
/// assert_eq!(Algorithm::TokenBucket.to_string(), "token-bucket");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// One counter for each stretch of the clock.
    FixedWindow,
    /// One counter for each key, from its first hit.
    FixedWindowPerKey,
    /// A counter that is forgotten only after a whole period of silence.
    ElasticWindow,
    /// Never more than the quota in any stretch of one period: remembers each hit.
    MovingWindow,
    /// The moving window estimated from two counters.
    SlidingWindow,
    /// Tokens that come back steadily, up to the burst.
    TokenBucket,
    /// A level that leaks steadily.
    LeakyBucket,
    /// The bucket as a single arrival time.
    #[default]
    Gcra,
}

impl Algorithm {
    /// All algorithms, in the order of the documentation.
    ///
    /// ```
    /// assert_eq!(tollgate::Algorithm::ALL.len(), 8);
    /// ```
    pub const ALL: [Algorithm; 8] = [
        Algorithm::FixedWindow,
        Algorithm::FixedWindowPerKey,
        Algorithm::ElasticWindow,
        Algorithm::MovingWindow,
        Algorithm::SlidingWindow,
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::Gcra,
    ];

    /// The name in text, configuration and identities.
    ///
    /// ```
    /// assert_eq!(tollgate::Algorithm::Gcra.as_str(), "gcra");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Algorithm::FixedWindow => "fixed-window",
            Algorithm::FixedWindowPerKey => "fixed-window-per-key",
            Algorithm::ElasticWindow => "elastic-window",
            Algorithm::MovingWindow => "moving-window",
            Algorithm::SlidingWindow => "sliding-window",
            Algorithm::TokenBucket => "token-bucket",
            Algorithm::LeakyBucket => "leaky-bucket",
            Algorithm::Gcra => "gcra",
        }
    }

    /// True for the algorithms that have a burst: token bucket, leaky bucket and GCRA.
    ///
    /// ```
    /// assert!(!tollgate::Algorithm::FixedWindow.has_burst());
    /// ```
    #[must_use]
    pub const fn has_burst(self) -> bool {
        matches!(self, Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra)
    }

    /// True for the algorithms that can count denied hits: the windows with one counter.
    ///
    /// ```
    /// assert!(tollgate::Algorithm::FixedWindow.can_charge_denied());
    /// ```
    #[must_use]
    pub const fn can_charge_denied(self) -> bool {
        matches!(
            self,
            Algorithm::FixedWindow | Algorithm::FixedWindowPerKey | Algorithm::ElasticWindow
        )
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
