//! How a task ends.

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The reason, not yet printed.
    Because(String),
    /// The reason was printed where it belongs.
    Printed,
}

pub(crate) fn because<T>(reason: impl Into<String>) -> Outcome<T> {
    Err(Failure::Because(reason.into()))
}

pub(crate) fn unknown<'a>(
    what: &str,
    value: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Failure {
    let known: Vec<&str> = known.into_iter().collect();
    Failure::Because(format!("unknown {what} `{value}`; known: {}", known.join(", ")))
}

/// Refuses arguments a task has no use for, instead of quietly ignoring them.
pub(crate) fn at_most(count: usize, arguments: &[String]) -> Outcome {
    match arguments.get(count) {
        Some(extra) => because(format!("unexpected argument `{extra}`; see cargo xtask help")),
        None => Ok(()),
    }
}
