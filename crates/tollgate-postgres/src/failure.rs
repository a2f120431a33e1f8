//! Classifies errors of PostgreSQL: whether the statement may have been executed, whether to send
//! it again, and whether the connection can still be used.

use tokio_postgres::error::{DbError, Severity, SqlState};
use tollgate::Error;

/// The meaning of a failed statement for its calls.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It was rolled back because of another session: send it again.
    Retry(RollbackCause, String),
    /// It was rolled back because of one of its calls. Which one is not known.
    OneCallFailed(Error),
    /// The call was not executed, and no other call would be at the moment.
    Refused(Error),
    /// It may have been executed.
    Lost(Error),
}

/// Why a statement was rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RollbackCause {
    /// It waited too long for a lock.
    Lock,
    /// It took too long.
    Timeout,
    /// It conflicted with other transactions.
    Conflict,
}

impl Verdict {
    /// The error for a caller that does not send it again.
    pub(crate) fn error(self) -> Error {
        match self {
            Verdict::Retry(_, text) => Error::unavailable(text),
            Verdict::OneCallFailed(error) | Verdict::Refused(error) | Verdict::Lost(error) => error,
        }
    }
}

/// The error of a statement that was sent, or was about to be.
pub(crate) fn of_statement(error: &tokio_postgres::Error) -> Verdict {
    let text = message(error);
    let Some(db) = error.as_db_error() else { return Verdict::Lost(Error::lost(text)) };
    // A session can end after the commit, while it waits for a replica.
    if is_fatal(db) {
        return Verdict::Lost(Error::lost(text));
    }
    let code = db.code();
    if *code == SqlState::LOCK_NOT_AVAILABLE {
        Verdict::Retry(RollbackCause::Lock, text)
    } else if *code == SqlState::QUERY_CANCELED {
        Verdict::Retry(RollbackCause::Timeout, text)
    } else if code.code().starts_with("40") {
        Verdict::Retry(RollbackCause::Conflict, text)
    } else if is_exhausted(code) {
        // New keys need room, old ones perhaps not.
        Verdict::OneCallFailed(Error::unavailable(text))
    } else if is_wrong_server(code)
        || code.code().starts_with("57")
        || code.code().starts_with("08")
    {
        Verdict::Refused(Error::unavailable(text))
    } else if is_missing(code) {
        Verdict::Refused(Error::store(
            format!("{text}; `schema` of this crate has the SQL that makes it"),
            false,
        ))
    } else if code.code().starts_with("42") || code.code() == "TG002" {
        Verdict::Refused(Error::store(text, false))
    } else {
        Verdict::OneCallFailed(Error::store(text, false))
    }
}

/// The error of an attempt to connect: nothing was executed.
pub(crate) fn of_connect(server: &str, error: &tokio_postgres::Error) -> Error {
    let text = format!("{server}: {}", message(error));
    match error.code() {
        // A wrong password, a missing database and missing rights do not go away by waiting.
        Some(code)
            if ["28", "3D", "42", "3F"].iter().any(|class| code.code().starts_with(class)) =>
        {
            Error::store(text, false)
        }
        _ => Error::unavailable(text),
    }
}

/// Whether the connection must be replaced: it ended, its server does not write, or the tables of
/// its database must be checked again.
pub(crate) fn breaks(error: &tokio_postgres::Error) -> bool {
    let Some(db) = error.as_db_error() else { return true };
    is_fatal(db) || is_wrong_server(db.code()) || is_missing(db.code())
}

/// A table, function or schema is missing.
pub(crate) fn is_missing(code: &SqlState) -> bool {
    [
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::UNDEFINED_COLUMN,
    ]
    .contains(code)
}

/// A standby, or a server that is set to read-only.
fn is_wrong_server(code: &SqlState) -> bool {
    *code == SqlState::READ_ONLY_SQL_TRANSACTION
}

/// No disk or memory left, or another error of the system.
fn is_exhausted(code: &SqlState) -> bool {
    ["53", "58", "XX"].iter().any(|class| code.code().starts_with(class))
}

fn is_fatal(db: &DbError) -> bool {
    matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic) | None)
}

/// One line: the message of PostgreSQL, or the source of the error.
pub(crate) fn message(error: &tokio_postgres::Error) -> String {
    let text = match error.as_db_error() {
        Some(db) => format!("{} (SQLSTATE {})", db.message(), db.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    };
    text.replace(['\r', '\n'], " ")
}
