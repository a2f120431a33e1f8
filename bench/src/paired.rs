//! Compares two contenders round by round. They take turns in each round, so disturbances of a
//! round affect both.

/// The median of their quotients, and its confidence interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Paired {
    pub(crate) low: f64,
    pub(crate) middle: f64,
    pub(crate) high: f64,
}

impl Paired {
    /// `None` without rounds.
    pub(crate) fn of(ours: &[f64], theirs: &[f64]) -> Option<Paired> {
        let mut quotients: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
        quotients.sort_by(f64::total_cmp);
        let outside = outside(quotients.len());
        Some(Paired {
            low: *quotients.get(outside)?,
            high: *quotients.iter().rev().nth(outside)?,
            middle: in_the_middle(quotients)?,
        })
    }

    /// `None` where the value is lower, but the interval includes the goal.
    pub(crate) fn at_least(&self, goal: f64) -> Option<bool> {
        if self.middle >= goal { Some(true) } else { (self.high < goal).then_some(false) }
    }

    /// `None` where the value is higher, but the interval includes the goal.
    pub(crate) fn at_most(&self, goal: f64) -> Option<bool> {
        if self.middle <= goal { Some(true) } else { (self.low > goal).then_some(false) }
    }
}

/// How many of the smallest, and as many of the largest, are outside of the interval. All but k
/// rounds are above the true median as rarely as k or fewer of their coins show heads: once in 40
/// runs, at each end.
fn outside(rounds: usize) -> usize {
    // The numbers of heads have 1, n, n(n-1)/2, ... ways among 2^n.
    let (mut ways, mut seldom) = (1.0, 0.0);
    for heads in 0..rounds {
        seldom += ways / 2_f64.powi(rounds as i32);
        if seldom > 0.025 {
            return heads.saturating_sub(1);
        }
        ways *= (rounds - heads) as f64 / (heads + 1) as f64;
    }
    0
}

/// The median; of two middle figures, their mean. `None` without figures.
pub(crate) fn in_the_middle(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let last = figures.len().checked_sub(1)?;
    Some(f64::midpoint(figures[last / 2], figures[figures.len() / 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_binomial_distribution() {
        // The values are from tables of the sign test.
        for (rounds, expected) in
            [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (15, 3), (20, 5), (30, 9)]
        {
            assert_eq!(outside(rounds), expected, "{rounds}");
        }
    }

    #[test]
    fn contenders_are_compared_within_each_round() {
        // Every round is twice as slow as the previous one for both: the quotient stays.
        let theirs: Vec<f64> = (0..9).map(|round| 0.5_f64.powi(round)).collect();
        let ours: Vec<f64> = theirs.iter().map(|rate| rate * 1.5).collect();
        assert_eq!(Paired::of(&ours, &theirs), Some(Paired { low: 1.5, middle: 1.5, high: 1.5 }));
        assert_eq!(Paired::of(&[], &[]), None);
    }

    #[test]
    fn a_goal_within_the_noise_is_neither_met_nor_missed() {
        let paired = Paired { low: 0.9, middle: 0.98, high: 1.1 };
        assert_eq!(
            [0.97, 1.0, 1.2].map(|goal| paired.at_least(goal)),
            [Some(true), None, Some(false)]
        );
        assert_eq!(
            [0.99, 0.95, 0.8].map(|goal| paired.at_most(goal)),
            [Some(true), None, Some(false)]
        );
    }
}
