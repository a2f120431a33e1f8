//! The place where a rule is written.

use std::sync::Arc;

/// The place where a rule is written, for messages about it.
///
/// All locations are equal, so that a rule which was only moved within its file counts as
/// unchanged.
#[derive(Clone, Debug, Default)]
pub struct SourceLocation {
    /// The file; empty for a rule that is in no file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The path of the rule within the file: `limits.login`.
    pub path: Box<str>,
}

impl PartialEq for SourceLocation {
    fn eq(&self, _: &SourceLocation) -> bool {
        true
    }
}
