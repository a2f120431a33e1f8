//! What an error of PostgreSQL means: whether the statement may have been executed, whether it is
//! worth asking again, and whether the connection is of use.

use tokio_postgres::error::{DbError, Severity, SqlState};
use tollgate::Error;

/// What to do with the calls of a statement that failed.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It was rolled back because of somebody else: ask again.
    Retry(RollbackCause, String),
    /// It was rolled back because of one of the calls, which one is not known.
    OneCallFailed(Error),
    /// Nobody can be answered for now. Nothing was executed.
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
    /// It got in the way of others.
    Conflict,
}

impl Verdict {
    /// For who does not ask again.
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
    // Whatever ends the session may do so after the commit: while it waits for a replica.
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
        // New keys need room, old ones may not.
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
        // Waiting does not help against a wrong password, a database that is not there, or missing
        // rights.
        Some(code)
            if ["28", "3D", "42", "3F"].iter().any(|class| code.code().starts_with(class)) =>
        {
            Error::store(text, false)
        }
        _ => Error::unavailable(text),
    }
}

/// Whether the connection is of no more use, leads to a server that does not write, or to a
/// database that has to be looked at anew.
pub(crate) fn breaks(error: &tokio_postgres::Error) -> bool {
    let Some(db) = error.as_db_error() else { return true };
    is_fatal(db) || is_wrong_server(db.code()) || is_missing(db.code())
}

/// Table, function or schema are not there.
pub(crate) fn is_missing(code: &SqlState) -> bool {
    [
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::UNDEFINED_COLUMN,
    ]
    .contains(code)
}

/// A standby, or a server that was told not to write.
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

/// One line: what PostgreSQL says, or what is behind the error.
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
