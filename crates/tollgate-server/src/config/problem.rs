//! Problems of configuration files, with their places.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::rules::{Rule, SourceLocation};

/// A position in a text: line and column, counted from 1; the column in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TextPosition {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl TextPosition {
    /// The start of a text.
    pub(crate) const START: TextPosition = TextPosition { line: 1, column: 1 };

    /// The position `characters` to the right on the same line.
    pub(crate) fn right(self, characters: usize) -> TextPosition {
        TextPosition { column: self.column + characters, ..self }
    }
}

/// One mistake: file, line, column, and a message that states the value and the rule.
///
/// ```
/// use tollgate_server::config;
/// let problems = config::read("[limits]\nlogin = \"5/fortnight\"", "tollgate.toml").unwrap_err();
/// assert_eq!(
///     problems.to_string(),
///     "tollgate.toml:2:12: limits.login: at 2: found \"fortnight\", expected a unit of time: millisecond, second, minute, hour, day or week"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 if the problem concerns the whole file.
    pub line: usize,
    /// The column in characters, from 1; 0 if the problem concerns the whole file.
    pub column: usize,
    /// The message: the value and what is expected.
    pub message: String,
}

impl Problem {
    /// The problem of a rule that this store cannot hold.
    pub(crate) fn of_rule(rule: &Rule, why: &impl fmt::Display) -> Problem {
        let SourceLocation { file, line, column, path } = &rule.location;
        let message = match &path[..] {
            "" => format!("{}: {why}", rule.name),
            path => format!("{path}: {why}"),
        };
        Problem { file: file.to_string(), line: *line, column: *column, message }
    }

    /// A problem of a whole file. The name is empty if the problem belongs to no file.
    pub(crate) fn of_file(file: &str, message: impl Into<String>) -> Problem {
        Problem { file: file.to_owned(), line: 0, column: 0, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { file, line, column, message } = self;
        match line {
            0 if file.is_empty() => f.write_str(message),
            0 => write!(f, "{file}: {message}"),
            _ => write!(f, "{file}:{line}:{column}: {message}"),
        }
    }
}

/// All problems, one per line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems(pub Vec<Problem>);

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Problems(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Collects the problems of one file while it is read, so that all of them are reported together.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    file: Arc<str>,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

impl Diagnostics {
    pub(crate) fn new(file: &Arc<str>) -> Diagnostics {
        Diagnostics {
            file: Arc::clone(file),
            problems: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    fn problem(&self, at: TextPosition, message: impl Into<String>) -> Problem {
        let TextPosition { line, column } = at;
        Problem { file: self.file.to_string(), line, column, message: message.into() }
    }

    /// The file.
    pub(crate) fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// Adds an error: the file cannot be used.
    pub(crate) fn wrong(&self, at: TextPosition, message: impl Into<String>) {
        self.problems.borrow_mut().push(self.problem(at, message));
    }

    /// Adds a warning: the setting works but is probably not meant.
    pub(crate) fn warn(&self, at: TextPosition, message: impl Into<String>) {
        self.warnings.borrow_mut().push(self.problem(at, message));
    }

    pub(crate) fn has_problems(&self) -> bool {
        !self.problems.borrow().is_empty()
    }

    /// Errors and warnings in the order of the file.
    pub(crate) fn into_parts(self) -> (Vec<Problem>, Vec<Problem>) {
        let sorted = |list: RefCell<Vec<Problem>>| {
            let mut list = list.into_inner();
            list.sort_by_key(|problem| (problem.line, problem.column));
            list
        };
        (sorted(self.problems), sorted(self.warnings))
    }
}
