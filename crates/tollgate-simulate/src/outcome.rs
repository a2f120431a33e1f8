//! The effect of a limit on the traffic.

use tollgate_report::Timeline;

use crate::waits::Waits;

/// The effect of a limit on the traffic.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The limit as text.
    pub limit: String,
    /// Requests that clients wanted to make.
    pub requests: u64,
    /// Attempts to make them: a client that tries again makes several.
    pub attempts: u64,
    /// Requests that were admitted, at their first attempt or later.
    pub admitted: u64,
    /// Requests that were admitted at their first attempt.
    pub admitted_at_once: u64,
    /// Attempts that were denied.
    pub denied: u64,
    /// Requests whose client gave up.
    pub given_up: u64,
    /// Requests whose client was still waiting at the end.
    pub waiting: u64,
    /// How long the admitted requests waited.
    pub waits: Waits,
    /// The admitted requests of each client.
    pub per_client: Vec<u64>,
    /// The same by group of clients.
    pub groups: Vec<GroupOutcome>,
    /// Attempts and denials over time.
    pub timeline: Timeline,
}

/// The effect of a limit on one group of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOutcome {
    /// Requests that its clients wanted to make.
    pub requests: u64,
    /// Those that were admitted.
    pub admitted: u64,
}

impl Outcome {
    /// Jain's index of the admitted requests per client, in thousandths: 1,000 when all clients got
    /// the same, and a thousand divided by the number of clients when one got everything. It is
    /// rounded down.
    #[must_use]
    pub fn fairness(&self) -> u64 {
        jain(&self.per_client)
    }
}

/// `(sum x)^2 / (n * sum x^2)` in thousandths.
fn jain(shares: &[u64]) -> u64 {
    let sum: u128 = shares.iter().copied().map(u128::from).sum();
    let squares: u128 = shares.iter().map(|share| u128::from(*share).pow(2)).sum();
    let most = squares.saturating_mul(shares.len() as u128);
    if most == 0 {
        return 1_000;
    }
    u64::try_from(sum.saturating_mul(sum).saturating_mul(1_000) / most).unwrap_or(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_a_whole_when_all_are_alike() {
        assert_eq!(jain(&[5, 5, 5, 5]), 1_000);
        assert_eq!(jain(&[20, 0, 0, 0]), 250);
        assert_eq!(jain(&[1, 3]), 800);
        assert_eq!([jain(&[]), jain(&[0, 0])], [1_000, 1_000]);
    }
}
