//! Deliberate mistakes that the simulation must catch. They exist in tests only.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Buckets and moving windows give up nothing for the life of allotments.
    NothingGivenUp,
    /// The life of an allotment is counted from the arrival of the answer.
    CountedFromAnswer,
    /// Units are given back to the window that is open now.
    GivenBackToNow,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Whether to make this mistake.
#[cfg(test)]
pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Whether to make this mistake.
#[cfg(not(test))]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}

/// Makes a mistake in this thread while `work` runs.
#[cfg(test)]
pub(crate) fn with<R>(fault: Fault, work: impl FnOnce() -> R) -> R {
    PLANTED.set(Some(fault));
    let result = work();
    PLANTED.set(None);
    result
}
