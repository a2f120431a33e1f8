//! Errors. A denial is a value, never an error, and an error is never a decision.

use std::convert::Infallible;
use std::fmt;

use crate::limit::LimitError;

/// The reason why a limit could not be prepared or a call failed. The message states the value and
/// the rule that it breaks.
///
/// ```
/// use tollgate::{Atomic, ErrorKind};
///
/// let error = Atomic::new().limiter("100/hour moving-window").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Unsupported);
/// assert_eq!(
///     error.to_string(),
///     "limit 100/hour moving-window: Atomic cannot hold a log of hits; Memory can"
/// );
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Reason);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Limit(LimitError),
    Unsupported { limit: String, why: String },
    Request(String),
    Unavailable(String),
    Overloaded(String),
    Lost(String),
    Store { what: String, transient: bool },
}

/// The kinds of [`Error`].
///
/// ```
/// use tollgate::{ErrorKind, Limit, Memory};
/// assert_eq!(Memory::new().limiter(Limit::per_second(0)).unwrap_err().kind(), ErrorKind::Limit);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A limit or a policy is not valid.
    Limit,
    /// The limit is valid, but this store does not support it.
    Unsupported,
    /// The call is not valid, for instance because one all-or-nothing hit contains the same key
    /// twice.
    Request,
    /// The call could not be sent to the shared store. The store has certainly not executed it.
    Unavailable,
    /// The call was sent to the shared store, but no answer arrived before the deadline. The store
    /// may have executed the call.
    Lost,
    /// The shared store answered with an error, or with something that is not a valid answer.
    Store,
}

impl Error {
    /// Creates the error for a valid limit that a store does not support, with the reason. For
    /// implementations of stores.
    ///
    /// ```
    /// use tollgate::{Error, Limit};
    /// let error = Error::unsupported(&Limit::per_second(5).build()?, "only windows here");
    /// assert_eq!(error.to_string(), "limit 5/second: only windows here");
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub fn unsupported(limit: impl fmt::Display, why: impl Into<String>) -> Self {
        Error(Reason::Unsupported { limit: limit.to_string(), why: why.into() })
    }

    /// Creates the error for a concurrency limit where only limits of hits are possible.
    pub(crate) fn counts_holds(limit: &crate::Limit) -> Self {
        Error::unsupported(
            limit,
            "a concurrency limit counts holds, not hits; use the method `holds` of the store",
        )
    }

    /// Creates the error for an invalid call. For implementations of stores.
    ///
    /// ```
    /// assert_eq!(tollgate::Error::request("0 items").kind(), tollgate::ErrorKind::Request);
    /// ```
    pub fn request(what: impl Into<String>) -> Self {
        Error(Reason::Request(what.into()))
    }

    /// Creates the error for a call that could not be sent to the store, which has certainly not
    /// executed it. For implementations of stores.
    ///
    /// ```
    /// assert!(tollgate::Error::unavailable("connection refused").is_transient());
    /// ```
    pub fn unavailable(what: impl Into<String>) -> Self {
        Error(Reason::Unavailable(what.into()))
    }

    /// Creates the error for a call that was not sent because the store has more calls than it can
    /// answer before their deadlines. For implementations of stores. The kind is
    /// [`ErrorKind::Unavailable`], but the circuit breaker stays closed, because the store answers
    /// other calls.
    ///
    /// ```
    /// use tollgate::{Error, ErrorKind};
    /// assert_eq!(Error::overloaded("300 calls wait").kind(), ErrorKind::Unavailable);
    /// ```
    pub fn overloaded(what: impl Into<String>) -> Self {
        Error(Reason::Overloaded(what.into()))
    }

    /// Creates the error for a call that was sent and may have been executed, but got no answer.
    /// Such a call is never sent again. For implementations of stores.
    ///
    /// ```
    /// assert!(tollgate::Error::lost("no answer within 5 ms").is_transient());
    /// ```
    pub fn lost(what: impl Into<String>) -> Self {
        Error(Reason::Lost(what.into()))
    }

    /// Creates the error for a call that the store answered with an error. `transient` means that
    /// the error may disappear without a repair: an error about keys that are moving between two
    /// nodes may, a wrong password does not. For implementations of stores.
    ///
    /// ```
    /// assert!(!tollgate::Error::store("wrong password", false).is_transient());
    /// ```
    pub fn store(what: impl Into<String>, transient: bool) -> Self {
        Error(Reason::Store { what: what.into(), transient })
    }

    /// Returns the message without the words for the kind, so that it can become part of another
    /// error.
    ///
    /// ```
    /// let refused = tollgate::Error::unavailable("connection refused");
    /// assert_eq!(refused.to_string(), "store not available: connection refused");
    /// assert_eq!(refused.detail(), "connection refused");
    /// ```
    #[must_use]
    pub fn detail(&self) -> String {
        match &self.0 {
            Reason::Unavailable(what)
            | Reason::Overloaded(what)
            | Reason::Lost(what)
            | Reason::Store { what, .. } => what.clone(),
            _ => self.to_string(),
        }
    }

    /// Returns whether the same call may succeed later without any repair.
    ///
    /// ```
    /// # use tollgate::Atomic;
    /// assert!(!Atomic::new().limiter("nonsense").unwrap_err().is_transient());
    /// ```
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self.0 {
            Reason::Unavailable(_) | Reason::Overloaded(_) | Reason::Lost(_) => true,
            Reason::Store { transient, .. } => transient,
            Reason::Limit(_) | Reason::Unsupported { .. } | Reason::Request(_) => false,
        }
    }

    /// Returns whether the store caused the error, and not an invalid limit or call.
    pub(crate) fn is_of_store(&self) -> bool {
        matches!(
            self.0,
            Reason::Unavailable(_) | Reason::Overloaded(_) | Reason::Lost(_) | Reason::Store { .. }
        )
    }

    /// Returns whether the call was not sent because the store is overloaded.
    pub(crate) fn is_overload(&self) -> bool {
        matches!(self.0, Reason::Overloaded(_))
    }

    /// Returns the kind of the error.
    ///
    /// ```
    /// # use tollgate::{Atomic, ErrorKind};
    /// assert_eq!(Atomic::new().limiter("nonsense").unwrap_err().kind(), ErrorKind::Limit);
    /// ```
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self.0 {
            Reason::Limit(_) => ErrorKind::Limit,
            Reason::Unsupported { .. } => ErrorKind::Unsupported,
            Reason::Request(_) => ErrorKind::Request,
            Reason::Unavailable(_) | Reason::Overloaded(_) => ErrorKind::Unavailable,
            Reason::Lost(_) => ErrorKind::Lost,
            Reason::Store { .. } => ErrorKind::Store,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Limit(error) => error.fmt(f),
            Reason::Unsupported { limit, why } => write!(f, "limit {limit}: {why}"),
            Reason::Unavailable(what) => write!(f, "store not available: {what}"),
            Reason::Overloaded(what) => write!(f, "store not available: it is overloaded: {what}"),
            Reason::Lost(what) => write!(f, "no answer from the store: {what}"),
            Reason::Store { what, .. } => write!(f, "error of the store: {what}"),
            Reason::Request(what) => f.write_str(what),
        }
    }
}

/// Prints the message, because a `main` that returns an error prints its `Debug` form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Reason::Limit(error) => Some(error),
            _ => None,
        }
    }
}

impl From<LimitError> for Error {
    fn from(error: LimitError) -> Error {
        Error(Reason::Limit(error))
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Error {
        match never {}
    }
}
