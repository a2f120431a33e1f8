//! The results of calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Admitted,
    Denied,
    /// Denied without asking the store.
    Remembered,
    Failed(String),
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) attempted: u64,
    pub(crate) admitted: u64,
    pub(crate) errors: u64,
    pub(crate) longest: Duration,
    /// The error of the last call that failed.
    pub(crate) error: Option<String>,
    first: Option<Instant>,
    last: Option<Instant>,
    fault_ended: Option<Instant>,
    /// When each node got its first answer after the fault.
    recovered: Vec<Option<Instant>>,
}

impl Counts {
    fn note(&mut self, node: usize, began: Instant, answer: Answer, is_whole: bool) {
        let now = Instant::now();
        self.attempted += 1;
        self.longest = self.longest.max(now - began);
        self.first = Some(self.first.map_or(began, |first| first.min(began)));
        self.last = Some(now);
        let is_answer = match answer {
            Answer::Admitted => {
                self.admitted += 1;
                true
            }
            Answer::Denied => true,
            Answer::Remembered => false,
            Answer::Failed(error) => {
                self.errors += 1;
                self.error = Some(error);
                false
            }
        };
        if is_answer && is_whole && self.fault_ended.is_some() {
            self.recovered[node].get_or_insert(now);
        }
    }

    /// From the end of the fault to the first answer of the node that was last to get one.
    pub(crate) fn recovery(&self) -> Option<Duration> {
        let last = self.recovered.iter().copied().collect::<Option<Vec<_>>>()?;
        Some(last.into_iter().max()? - self.fault_ended?)
    }

    /// The time from the first call to the last answer.
    pub(crate) fn span(&self) -> Duration {
        self.first.zip(self.last).map_or(Duration::ZERO, |(first, last)| last - first)
    }
}

/// Counts that many callers add to.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<Counts>>);

impl Shared {
    pub(crate) fn new(nodes: usize) -> Shared {
        let counts = Counts { recovered: vec![None; nodes], ..Counts::default() };
        Shared(Arc::new(Mutex::new(counts)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an answer. `is_whole` says whether the node has recovered everything that it needs of
    /// the store.
    pub(crate) fn note(&self, node: usize, began: Instant, answer: Answer, is_whole: bool) {
        self.lock().note(node, began, answer, is_whole);
    }

    pub(crate) fn fault_ended(&self) {
        self.lock().fault_ended = Some(Instant::now());
    }
}
