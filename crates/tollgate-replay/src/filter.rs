//! Filters of requests by one field.

use std::fmt;
use std::sync::Arc;

type Accepts = dyn Fn(&[u8]) -> bool + Send + Sync;

/// A condition on the value of one field.
///
/// ```
/// use tollgate_replay::Filter;
/// let api = Filter::new("path", |path| path.starts_with(b"/api/"));
/// assert!(api.accepts(b"/api/users") && !api.accepts(b"/health"));
/// ```
#[derive(Clone)]
pub struct Filter {
    field: String,
    accepts: Arc<Accepts>,
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("field", &self.field).finish_non_exhaustive()
    }
}

impl Filter {
    /// On a field of the log, or on a role: `method`, `path`, `status`, `client`.
    #[must_use]
    pub fn new(
        field: impl Into<String>,
        accepts: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
    ) -> Filter {
        Filter { field: field.into(), accepts: Arc::new(accepts) }
    }

    pub(crate) fn field(&self) -> &str {
        &self.field
    }

    /// Whether a value passes. A missing value is an empty one.
    #[must_use]
    pub fn accepts(&self, value: &[u8]) -> bool {
        (self.accepts)(value)
    }
}
