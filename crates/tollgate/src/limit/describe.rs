//! Limits in words for people.

use std::fmt;

use super::{Limit, Rate};

/// A limit in words for people: see [`Limit::describe`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// One sentence about the units that it admits.
    pub admits: String,
    /// The most units that it can admit in a span of time.
    pub at_most: String,
}

impl Limit {
    /// Describes the limit in words for people.
    ///
    /// ```
    /// use tollgate::Limit;
    ///
    /// let description = Limit::per_minute(100).burst(20).build()?.describe();
    /// assert_eq!(description.admits, "20 at once, then one every 600 ms: 100 in 1 minute in the long run");
    /// assert!(description.at_most.starts_with("120 in any 1 minute"));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn describe(&self) -> Description {
        self.algorithm().describe(self.rate())
    }
}

impl Rate {
    /// Returns the period in words.
    pub(crate) fn span(&self) -> Span {
        Span(u128::from(self.period) * 1_000)
    }

    /// Returns the mean time between units, in words.
    pub(crate) fn interval(&self) -> Span {
        Span(u128::from(self.period) * 1_000 / u128::from(self.quota))
    }
}

/// Nanoseconds, in words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span(u128);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0;
        for (name, unit) in [
            ("week", 604_800_000_000_000_u128),
            ("day", 86_400_000_000_000),
            ("hour", 3_600_000_000_000),
            ("minute", 60_000_000_000),
            ("second", 1_000_000_000),
        ] {
            if nanos >= unit && nanos.is_multiple_of(unit) {
                return match nanos / unit {
                    1 => write!(f, "1 {name}"),
                    many => write!(f, "{many} {name}s"),
                };
            }
        }
        let (unit, digits, name) = match nanos {
            1_000_000_000.. => (1_000_000_000, 9, "s"),
            1_000_000.. => (1_000_000, 3, "ms"),
            1_000.. => (1_000, 3, "us"),
            _ => (1, 0, "ns"),
        };
        // Seconds are exact, parts of a second have up to three decimals.
        let decimals = nanos % unit * 10_u128.pow(digits) / unit;
        let decimals = format!("{decimals:0width$}", width = digits as usize);
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{} {name}", nanos / unit),
            decimals => write!(f, "{}.{decimals} {name}", nanos / unit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(text: &str) -> Description {
        text.parse::<Limit>().unwrap().describe()
    }

    #[test]
    fn a_bucket_is_explained_by_its_burst_and_its_rate() {
        let Description { admits, at_most } = describe("100/minute burst=20");
        assert_eq!(admits, "20 at once, then one every 600 ms: 100 in 1 minute in the long run");
        assert_eq!(at_most, "120 in any 1 minute; 20 + floor(d * 100 / 1 minute) in any span d");
    }

    #[test]
    fn a_window_is_explained_by_its_edges() {
        let fixed = describe("5 per 90 seconds fixed-window");
        assert!(fixed.admits.starts_with("5 in each stretch of 90 seconds"));
        assert!(describe("5/minute moving-window").at_most.starts_with("5 in any 1 minute"));
        assert_eq!(describe("1/day sliding-window").at_most, "1 in any 1 day");
        assert!(describe("3 per 1500 milliseconds elastic-window").admits.contains("1.5 s"));
    }

    #[test]
    fn spans_have_the_largest_unit_that_they_fill() {
        for (nanos, text) in [
            (7, "7 ns"),
            (1_050, "1.05 us"),
            (142_857_142, "142.857 ms"),
            (1_000_000_001, "1.000000001 s"),
            (1_209_600_000_000_000, "2 weeks"),
        ] {
            assert_eq!(Span(nanos).to_string(), text);
        }
    }
}
