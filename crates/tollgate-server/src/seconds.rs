//! Spans as programs read them.

use std::fmt;
use std::time::Duration;

/// A span in seconds, with as many decimals as there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:09}", self.0.subsec_nanos());
        match digits.trim_end_matches('0') {
            "" => write!(f, "{}", self.0.as_secs()),
            digits => write!(f, "{}.{digits}", self.0.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_those_that_there_are() {
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
