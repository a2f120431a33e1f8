//! Mistakes that the simulation must catch. Outside of tests nothing is ever planted.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Buckets and moving windows are drawn from as they are.
    NothingGivenUp,
    /// The life of an allotment is counted from when the answer came.
    CountedFromAnswer,
    /// What is given back goes to whatever window is open now.
    GivenBackToNow,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Whether this mistake is to be made.
#[cfg(test)]
pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Whether this mistake is to be made.
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
