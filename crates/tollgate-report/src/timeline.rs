//! Counts over time, in a bounded number of steps: when the time becomes longer, so do the steps.

use crate::{span, utc};

/// The most steps of a timeline.
pub const STEPS: usize = 120;

/// Requests and denials of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// All requests.
    pub requests: u64,
    /// Those that were denied.
    pub denied: u64,
}

/// The meaning of the times of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Microseconds since the Unix epoch.
    Utc,
    /// Microseconds since the first step.
    Elapsed,
}

impl Axis {
    /// A time as charts show it.
    #[must_use]
    pub(crate) fn label(self, timeline: &Timeline, at: u64) -> String {
        match self {
            Axis::Utc => format!("{} UTC", utc(at)),
            Axis::Elapsed => span(at.saturating_sub(timeline.start)),
        }
    }
}

/// Counts over time.
///
/// ```
/// let mut timeline = tollgate_report::Timeline::default();
/// timeline.count(5_000_000, true);
/// timeline.count(6_000_000, false);
/// assert_eq!(timeline.steps().iter().map(|step| step.denied).sum::<u64>(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Timeline {
    start: u64,
    width: u64,
    /// The first time that belongs to no step yet, so that most counts need no division.
    current: (u64, usize),
    steps: Vec<Step>,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline::with_steps_of(1_000_000)
    }
}

impl Timeline {
    /// A timeline whose steps have at least this length in microseconds.
    #[must_use]
    pub fn with_steps_of(width: u64) -> Timeline {
        Timeline { start: 0, width: width.max(1), current: (0, 0), steps: Vec::new() }
    }

    /// When the first step begins, in microseconds.
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

    /// The step with the most denials, and when it begins; `None` without a denial.
    #[must_use]
    pub fn worst(&self) -> Option<(u64, Step)> {
        let numbered = self.steps.iter().enumerate().rev();
        let (index, step) = numbered.max_by_key(|(_, step)| step.denied)?;
        (step.denied > 0).then(|| (self.start + index as u64 * self.width, *step))
    }

    /// Counts a request.
    pub fn count(&mut self, at: u64, denied: bool) {
        let (begin, index) = self.current;
        let is_same = at.wrapping_sub(begin) < self.width && index < self.steps.len();
        let index = if is_same { index } else { self.step_of(at) };
        let step = &mut self.steps[index];
        step.requests += 1;
        step.denied += u64::from(denied);
    }

    fn step_of(&mut self, at: u64) -> usize {
        if self.steps.is_empty() {
            self.start = at - at % self.width;
        }
        let mut index = at.saturating_sub(self.start) / self.width;
        while index >= STEPS as u64 {
            let sum = |pair: &[Step]| Step {
                requests: pair.iter().map(|step| step.requests).sum(),
                denied: pair.iter().map(|step| step.denied).sum(),
            };
            self.steps = self.steps.chunks(2).map(sum).collect();
            self.width *= 2;
            index = at.saturating_sub(self.start) / self.width;
        }
        self.current = (self.start + index * self.width, index as usize);
        let index = index as usize;
        if index >= self.steps.len() {
            self.steps.resize(index + 1, Step::default());
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn nothing_is_lost(times in proptest::collection::vec(0_u64..1_000_000_000_000, 1..100)) {
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
