//! Why a paced request has no response.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a request through a [`PaceLayer`](crate::PaceLayer) has no response.
///
/// ```
/// use std::time::Duration;
/// let error = tollgate_tower::PaceError::<std::io::Error>::TooLong(Some(Duration::from_secs(90)));
/// assert_eq!(error.to_string(), "not sent: its turn is in 90s, which is more than it may wait");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum PaceError<E> {
    /// The request was sent, and that failed.
    Inner(E),
    /// The request was not sent: its turn would come later than it may wait. The time until its
    /// turn; `None` if it never comes.
    TooLong(Option<Duration>),
    /// The request was not sent: the store of the limiter did not answer, and the limiter has no
    /// rule for that.
    Store(tollgate::Error),
}

impl<E: fmt::Display> fmt::Display for PaceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PaceError::Inner(error) => error.fmt(f),
            PaceError::TooLong(Some(wait)) => {
                write!(f, "not sent: its turn is in {wait:?}, which is more than it may wait")
            }
            PaceError::TooLong(None) => f.write_str("not sent: the limit never allows it"),
            PaceError::Store(error) => write!(f, "not sent: {error}"),
        }
    }
}

impl<E: Error + 'static> Error for PaceError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PaceError::Inner(error) => error.source(),
            PaceError::TooLong(_) => None,
            PaceError::Store(error) => Some(error),
        }
    }
}
