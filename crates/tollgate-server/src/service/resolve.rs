//! Finds the limit that a request names: a rule by its name, or a limit as text.

use std::sync::Arc;

use tollgate::Policy;

use super::Service;
use super::bound_rule::BoundRule;
use super::error::RequestError;

impl Service {
    /// The rule of that name; if there is none, the limit that the text describes: `"api"` or
    /// `"10/second"`.
    ///
    /// # Errors
    /// When it is neither, or the store cannot hold it.
    pub fn resolve(&self, namespace: &str, limit: &str) -> Result<Arc<BoundRule>, RequestError> {
        let text = (namespace.as_bytes(), limit.as_bytes());
        let rules = self.rules.load();
        let named = rules.limits.get(namespace).and_then(|names| names.get(limit));
        if let Some(rule) = named.cloned().or_else(|| self.inline_limits.find(text.0, text.1)) {
            return Ok(rule);
        }
        let policy: Policy = limit.parse().map_err(|error| {
            // A text that begins with a digit is meant as a limit, any other one as a name.
            if limit.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
                RequestError::invalid(format!("limit {limit:?}: {error}"))
            } else {
                RequestError::unknown_rule(namespace, limit)
            }
        })?;
        self.inline_limit(namespace, &policy, Some(text))
    }
}
