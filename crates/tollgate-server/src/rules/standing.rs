//! Where a rule is written.

use std::sync::Arc;

/// Where a rule is written, for messages about it. All are equal: a rule says the same wherever it stands, and one that only moved has not changed.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// The file; empty for a rule that no file has.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The way to it in the file: `limits.login`.
    pub path: Box<str>,
}

impl PartialEq for Standing {
    fn eq(&self, _: &Standing) -> bool {
        true
    }
}
