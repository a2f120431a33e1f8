//! Classifies errors of Redis: whether the script may have run, and whether the error is transient.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tollgate::Error;

/// The error of a command that was sent, or was about to be.
pub(crate) fn of_command(error: &RedisError) -> Error {
    let text = message(error);
    match error.kind() {
        // Rejected before a script ran, or at its first write, which comes before all others.
        ErrorKind::Server(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ReadOnly
            | ServerErrorKind::NoScript
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask,
        ) => Error::unavailable(text),
        ErrorKind::Server(ServerErrorKind::TryAgain) => Error::store(text, true),
        _ if error.is_connection_refusal() => Error::unavailable(text),
        _ if error.is_io_error() || error.is_connection_dropped() || error.is_timeout() => {
            Error::lost(text)
        }
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => {
            Error::store(text, false)
        }
        // A script fails as a whole at its first write.
        _ if ["OOM", "BUSY", "NOREPLICAS", "MISCONF", "READONLY"]
            .iter()
            .any(|c| says(error, c)) =>
        {
            Error::unavailable(text)
        }
        // Nothing was written.
        _ if text.contains("TOLLGATE CLOCK") => Error::store(
            "the clock of this machine or of the server is wrong: the server's time is in none of \
             the three calendar windows around this machine's time"
                .to_owned(),
            true,
        ),
        _ => Error::store(text, false),
    }
}

/// The error of an attempt to connect: nothing was executed.
pub(crate) fn of_connect(server: &str, error: &RedisError) -> Error {
    let text = format!("{server}: {}", message(error));
    let login = matches!(error.kind(), ErrorKind::AuthenticationFailed);
    // Waiting does not help against a wrong password.
    if login || says(error, "NOAUTH") || says(error, "WRONGPASS") {
        return Error::store(text, false);
    }
    Error::unavailable(text)
}

/// Whether the connection cannot be used any more, or leads to the wrong server.
pub(crate) fn breaks(error: &RedisError) -> bool {
    let wrong_server = matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly))
        || says(error, "READONLY");
    wrong_server || error.is_io_error() || error.is_connection_dropped()
}

pub(crate) fn is_no_script(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::NoScript))
}

/// Whether a command with several keys was not executed because their slot is moving.
pub(crate) fn is_try_again(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::TryAgain))
}

/// Whether the server returned this code, as its own or (before Redis 7) as that of a command
/// inside the script.
fn says(error: &RedisError, code: &str) -> bool {
    let inside = || error.detail().is_some_and(|text| text.contains(&format!("-{code} ")));
    error.code() == Some(code) || inside()
}

/// The message in one line.
fn message(error: &RedisError) -> String {
    error.to_string().replace(['\r', '\n'], " ")
}
