//! The names of the algorithms.

use std::fmt;

/// The rule by which hits are counted. The guide "choose an algorithm" helps to choose; every
/// module in [`crate::algorithm`] explains its algorithm.
///
/// ```
/// use tollgate::Algorithm;
/// assert_eq!(Algorithm::default(), Algorithm::Gcra);
/// assert_eq!(Algorithm::TokenBucket.to_string(), "token-bucket");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Counts in windows of the clock, such as each full minute.
    FixedWindow,
    /// Counts in windows that begin with the first hit of a key.
    FixedWindowPerKey,
    /// Counts until a key has made no hit for a whole period, and then starts again from zero.
    ElasticWindow,
    /// Remembers each hit, and never admits more than the quota in any span of one period.
    MovingWindow,
    /// Estimates the moving window from two counters.
    SlidingWindow,
    /// Takes tokens that are refilled steadily, up to the burst.
    TokenBucket,
    /// Raises a level that leaks steadily.
    LeakyBucket,
    /// Keeps the bucket as a single arrival time (generic cell rate algorithm).
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

    /// Returns the name in text, configuration and identities.
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

    /// Returns true for the algorithms that have a burst: token bucket, leaky bucket and GCRA.
    ///
    /// ```
    /// assert!(!tollgate::Algorithm::FixedWindow.has_burst());
    /// ```
    #[must_use]
    pub const fn has_burst(self) -> bool {
        matches!(self, Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra)
    }

    /// Returns true for the algorithms that can count denied hits: the windows that have one
    /// counter.
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
