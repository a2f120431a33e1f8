//! Why a request has no decision.

use std::fmt;

use tollgate::{Error, ErrorKind};

use crate::telemetry::Seldom;

/// Why a request has no decision. A denial is a decision and never a `RequestError`.
#[derive(Clone, Debug)]
pub struct RequestError {
    kind: RequestErrorKind,
    message: String,
}

/// The kinds of [`RequestError`]. Each protocol has a code for each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestErrorKind {
    /// The request is not valid.
    Invalid,
    /// There is no rule of that name.
    UnknownRule,
    /// The store did not answer, or answered with an error.
    Store,
}

impl RequestError {
    /// The request is not valid. The message names the value and the rule that it breaks.
    pub fn invalid(message: impl Into<String>) -> RequestError {
        RequestError { kind: RequestErrorKind::Invalid, message: message.into() }
    }

    pub(crate) fn unknown_rule(namespace: &str, name: &str) -> RequestError {
        let message = match namespace {
            "" => format!("limit {name:?}: there is no rule of that name"),
            _ => {
                format!("limit {name:?} in namespace {namespace:?}: there is no rule of that name")
            }
        };
        RequestError { kind: RequestErrorKind::UnknownRule, message }
    }

    /// The kind of this error.
    #[must_use]
    pub fn kind(&self) -> RequestErrorKind {
        self.kind
    }

    /// Whether the store is the cause.
    pub(crate) fn is_of_store(&self) -> bool {
        self.kind == RequestErrorKind::Store
    }
}

/// Clients get a general message. The error of the store may contain addresses: it goes to the log.
impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        let message = match error.kind() {
            ErrorKind::Unavailable => "the store is not available; nothing was charged",
            ErrorKind::Lost => "the store did not answer in time; the call may have been charged",
            ErrorKind::Store => "the store answered with an error",
            _ => return RequestError::invalid(error.to_string()),
        };
        log(&error);
        RequestError { kind: RequestErrorKind::Store, message: message.to_owned() }
    }
}

fn log(error: &Error) {
    static SELDOM: Seldom = Seldom::new();
    if let Some(suppressed) = SELDOM.may() {
        tracing::warn!(%error, suppressed, "the store made no decision");
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RequestError {}
