//! Classifies errors of etcd: whether the request may have been executed, and what to do next.
//!
//! The codes of gRPC are too coarse: a request that timed out halfway and one that was never
//! accepted are both `Unavailable`. So this compares etcd's messages, as clients in all languages
//! do.

use std::error::Error as _;

use http::Uri;
use tollgate::{Error, ErrorKind};
use tonic::{Code, ConnectError, Status};

use crate::target::chain;

/// An error, and what to do next.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) remedy: Remedy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// This connection, or this member, cannot be used now.
    NextMember,
    /// The token has expired, or the member has forgotten it. The request was not executed.
    Login,
    /// The lease has expired. The request was not executed.
    NewLease,
    None,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, remedy: Remedy::None }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        failure.error
    }
}

/// The error of a request.
pub(crate) fn of_status(status: &Status) -> Failure {
    // An error of etcd itself has no source; an error of the connection has one.
    if let Some(source) = status.source() {
        let text = chain(source);
        let error =
            if was_never_sent(status) { Error::unavailable(text) } else { Error::lost(text) };
        return Failure { error, remedy: Remedy::NextMember };
    }
    let text = status.message();
    match text.strip_prefix("etcdserver: ").unwrap_or(text) {
        "no leader" | "raft proposal dropped" | "not capable" => {
            Failure { error: Error::unavailable(text), remedy: Remedy::NextMember }
        }
        "too many requests" => Error::unavailable(text).into(),
        "mvcc: database space exceeded" => {
            Error::unavailable(format!("{text}: compact, defragment and disarm the alarm")).into()
        }
        "requested lease not found" => {
            Failure { error: Error::unavailable(text), remedy: Remedy::NewLease }
        }
        "invalid auth token" | "auth: revision in header is old" | "user name is empty" => {
            Failure { error: Error::store(text, false), remedy: Remedy::Login }
        }
        "request is too large" => {
            Error::store(format!("{text}: --max-request-bytes"), false).into()
        }
        "too many operations in txn request" => {
            Error::store(format!("{text}: --max-txn-ops"), false).into()
        }
        _ => of_code(status),
    }
}

/// The error of an attempt to connect: nothing was executed.
pub(crate) fn of_connect(member: &Uri, failure: &Failure) -> Error {
    let text =
        format!("{}: {}", member.authority().map_or("", |at| at.as_str()), failure.error.detail());
    match failure.error.kind() {
        ErrorKind::Store => Error::store(text, failure.error.is_transient()),
        _ => Error::unavailable(text),
    }
}

/// Checks before a request is proposed have their own codes. With any other code the request may
/// have been executed.
fn of_code(status: &Status) -> Failure {
    let text = match status.message() {
        "" => status.code().description(),
        message => message,
    };
    match status.code() {
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::ResourceExhausted
        | Code::Unimplemented
        | Code::Unauthenticated => Error::store(text, false).into(),
        _ => Failure { error: Error::lost(text), remedy: Remedy::NextMember },
    }
}

fn was_never_sent(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(cause) = source {
        if cause.is::<ConnectError>() {
            return true;
        }
        source = cause.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(code: Code, text: &str) -> (ErrorKind, bool, Remedy) {
        let failure = of_status(&Status::new(code, text));
        (failure.error.kind(), failure.error.is_transient(), failure.remedy)
    }

    #[test]
    fn only_errors_of_requests_not_executed_are_unavailable() {
        let (unavailable, lost) = (ErrorKind::Unavailable, ErrorKind::Lost);
        for (code, text, kind, remedy) in [
            (Code::Unavailable, "etcdserver: no leader", unavailable, Remedy::NextMember),
            (Code::Unknown, "raft proposal dropped", unavailable, Remedy::NextMember),
            (Code::ResourceExhausted, "etcdserver: too many requests", unavailable, Remedy::None),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                unavailable,
                Remedy::None,
            ),
            (
                Code::NotFound,
                "etcdserver: requested lease not found",
                unavailable,
                Remedy::NewLease,
            ),
            (Code::Unavailable, "etcdserver: request timed out", lost, Remedy::NextMember),
            (
                Code::Unavailable,
                "etcdserver: request timed out, possibly due to previous leader failure",
                lost,
                Remedy::NextMember,
            ),
            (Code::Unavailable, "etcdserver: server stopped", lost, Remedy::NextMember),
            (Code::Unavailable, "etcdserver: leader changed", lost, Remedy::NextMember),
            (Code::Unavailable, "upstream connect error", lost, Remedy::NextMember),
            (Code::DataLoss, "etcdserver: corrupt cluster", lost, Remedy::NextMember),
            (Code::Internal, "Missing response message.", lost, Remedy::NextMember),
            (Code::DeadlineExceeded, "context deadline exceeded", lost, Remedy::NextMember),
        ] {
            assert_eq!(meaning(code, text), (kind, true, remedy), "{text}");
        }
    }

    #[test]
    fn an_error_of_connecting_states_its_kind_once() {
        let member = Uri::from_static("http://127.0.0.1:2379");
        for cause in [Error::lost("reset"), Error::unavailable("reset")] {
            let error = of_connect(&member, &cause.into());
            assert_eq!(error.to_string(), "store not available: 127.0.0.1:2379: reset");
        }
    }

    #[test]
    fn errors_that_waiting_does_not_help_are_store_errors() {
        for (code, text, remedy) in [
            (Code::Unauthenticated, "etcdserver: invalid auth token", Remedy::Login),
            (Code::InvalidArgument, "etcdserver: user name is empty", Remedy::Login),
            (Code::PermissionDenied, "etcdserver: permission denied", Remedy::None),
            (Code::InvalidArgument, "etcdserver: request is too large", Remedy::None),
            (Code::InvalidArgument, "etcdserver: too many operations in txn request", Remedy::None),
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                Remedy::None,
            ),
        ] {
            assert_eq!(meaning(code, text), (ErrorKind::Store, false, remedy), "{text}");
        }
    }
}
