//! The result of a task.

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

#[derive(Debug)]
pub(crate) enum Failure {
    /// A reason that has not been printed yet.
    Because(String),
    /// The reason was already printed.
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

/// Refuses surplus arguments instead of ignoring them.
pub(crate) fn at_most(count: usize, arguments: &[String]) -> Outcome {
    match arguments.get(count) {
        Some(extra) => because(format!("unexpected argument `{extra}`; see cargo xtask help")),
        None => Ok(()),
    }
}
