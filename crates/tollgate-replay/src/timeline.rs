//! Counts over time, in at most so many steps: when a log is longer, the steps become longer.

const STEPS: usize = 120;

/// Requests and denials of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// All requests.
    pub requests: u64,
    /// Those that were denied.
    pub denied: u64,
}

/// Counts over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    start: u64,
    width: u64,
    steps: Vec<Step>,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { start: 0, width: 1_000_000, steps: Vec::new() }
    }
}

impl Timeline {
    /// When the first step begins, in microseconds since the epoch.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The length of a step in microseconds.
    #[must_use]
    pub fn width(&self) -> u64 {
        self.width
    }

    /// The steps in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn count(&mut self, at: u64, denied: bool) {
        if self.steps.is_empty() {
            self.start = at - at % self.width;
        }
        let mut index = at.saturating_sub(self.start) / self.width;
        while index >= STEPS as u64 {
            self.steps = self
                .steps
                .chunks(2)
                .map(|pair| Step {
                    requests: pair.iter().map(|step| step.requests).sum(),
                    denied: pair.iter().map(|step| step.denied).sum(),
                })
                .collect();
            self.width *= 2;
            index = at.saturating_sub(self.start) / self.width;
        }
        let index = index as usize;
        if index >= self.steps.len() {
            self.steps.resize(index + 1, Step::default());
        }
        self.steps[index].requests += 1;
        self.steps[index].denied += u64::from(denied);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn no_request_is_lost_when_steps_widen(times in proptest::collection::vec(0_u64..1_000_000_000_000, 1..100)) {
            let mut times = times;
            times.sort_unstable();
            let mut timeline = Timeline::default();
            times.iter().for_each(|at| timeline.count(*at, at % 2 == 0));
            let denied = times.iter().filter(|at| *at % 2 == 0).count() as u64;
            let sum = |value: fn(&Step) -> u64| timeline.steps().iter().map(value).sum::<u64>();
            proptest::prop_assert_eq!(sum(|step| step.requests), times.len() as u64);
            proptest::prop_assert_eq!(sum(|step| step.denied), denied);
            proptest::prop_assert!(timeline.steps().len() <= STEPS);
        }
    }
}
