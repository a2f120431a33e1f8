//! Durations as decimal seconds.

use std::fmt;
use std::time::Duration;

use tollgate::{Clock as _, SystemClock};

/// The time now, in seconds since the Unix epoch.
pub(crate) fn unix_now() -> u64 {
    SystemClock::new().now().as_micros() / 1_000_000
}

/// A duration in seconds, with as many decimals as it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(pub(crate) Duration);

impl Seconds {
    /// Appends the number by hand, because `write!` would take as long as a decision.
    pub(crate) fn push_to(self, out: &mut String) {
        let mut digits = itoa::Buffer::new();
        out.push_str(digits.format(self.0.as_secs()));
        let nanos = self.0.subsec_nanos();
        if nanos > 0 {
            out.push('.');
            // The leading one keeps the zeros after the decimal point.
            out.push_str(digits.format(1_000_000_000 + nanos)[1..].trim_end_matches('0'));
        }
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.push_to(&mut text);
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_as_many_decimals_as_needed() {
        for (nanos, text) in [
            (0, "0"),
            (1, "0.000000001"),
            (524_288_000, "0.524288"),
            (1_000_000_000, "1"),
            (61_500_000_000, "61.5"),
        ] {
            assert_eq!(Seconds(Duration::from_nanos(nanos)).to_string(), text);
        }
    }
}
