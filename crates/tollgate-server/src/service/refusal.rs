//! Why there is no answer.

use std::fmt;

use tollgate::{Error, ErrorKind};

use crate::telemetry::Seldom;

/// Why a question has no answer: never a decision.
#[derive(Clone, Debug)]
pub struct Refusal {
    kind: RefusalKind,
    message: String,
}

/// What kind of reason it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The question makes no sense.
    Wrong,
    /// There is no such rule.
    Unknown,
    /// The store did not answer.
    Store,
}

impl Refusal {
    /// The question makes no sense; the message says the value and the rule.
    pub fn wrong(message: impl Into<String>) -> Refusal {
        Refusal { kind: RefusalKind::Wrong, message: message.into() }
    }

    pub(crate) fn unknown(namespace: &str, name: &str) -> Refusal {
        let message = match namespace {
            "" => format!("limit {name:?}: there is no rule of that name"),
            _ => {
                format!("limit {name:?} in namespace {namespace:?}: there is no rule of that name")
            }
        };
        Refusal { kind: RefusalKind::Unknown, message }
    }

    /// What kind of reason it is.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        self.kind
    }
}

/// What a store says of itself (addresses, for one) goes to the log and not to clients.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let message = match error.kind() {
            ErrorKind::Unavailable => "the store is not available; nothing was charged",
            ErrorKind::Lost => "the store did not answer in time; the call may have been charged",
            ErrorKind::Store => "the store answered with an error",
            _ => return Refusal::wrong(error.to_string()),
        };
        log(&error);
        Refusal { kind: RefusalKind::Store, message: message.to_owned() }
    }
}

fn log(error: &Error) {
    static SELDOM: Seldom = Seldom::new();
    if let Some(untold) = SELDOM.may() {
        tracing::warn!(%error, untold, "no decision from the store");
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
