//! What an error of Redis means: whether the script may have run, and whether the error will pass.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tollgate::Error;

/// The error of a command that was sent, or was about to be.
pub(crate) fn of_command(error: &RedisError) -> Error {
    let text = message(error);
    match error.kind() {
        // Refused before a script ran, or by its first write, which is before any other.
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
        // The script is refused as a whole when it comes to its first write.
        _ if matches!(error.code(), Some("OOM")) || text.contains("OOM command not allowed") => {
            Error::unavailable(text)
        }
        _ if matches!(error.code(), Some("BUSY" | "NOREPLICAS" | "MISCONF")) => {
            Error::unavailable(text)
        }
        _ => Error::store(text, false),
    }
}

/// The error of an attempt to connect: nothing was executed.
pub(crate) fn of_connect(server: &str, error: &RedisError) -> Error {
    Error::unavailable(format!("{server}: {}", message(error)))
}

/// Whether the connection is of no more use, or leads to the wrong server.
pub(crate) fn breaks(error: &RedisError) -> bool {
    let wrong_server = matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly));
    wrong_server || error.is_io_error() || error.is_connection_dropped()
}

pub(crate) fn is_no_script(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::NoScript))
}

/// One line.
fn message(error: &RedisError) -> String {
    error.to_string().replace(['\r', '\n'], " ")
}
