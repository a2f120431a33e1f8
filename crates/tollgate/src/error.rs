//! What can go wrong before the first hit. A denial is a value, never an error.

use std::convert::Infallible;
use std::fmt;

use crate::limit::LimitError;

/// Why something could not be prepared or asked: the value and the rule.
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
    /// A limit or policy breaks a rule.
    Limit,
    /// A valid limit that this store cannot hold.
    Unsupported,
    /// A call that makes no sense, such as the same key twice in one all-or-nothing hit.
    Request,
}

impl Error {
    pub(crate) fn unsupported(limit: impl fmt::Display, why: impl Into<String>) -> Self {
        Error(Reason::Unsupported { limit: limit.to_string(), why: why.into() })
    }

    pub(crate) fn request(what: impl Into<String>) -> Self {
        Error(Reason::Request(what.into()))
    }

    /// What kind of error it is.
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
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Limit(error) => error.fmt(f),
            Reason::Unsupported { limit, why } => write!(f, "limit {limit}: {why}"),
            Reason::Request(what) => f.write_str(what),
        }
    }
}

/// The message, because this is what a `main` that returns an error prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Reason::Limit(error) => Some(error),
            Reason::Unsupported { .. } | Reason::Request(_) => None,
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
