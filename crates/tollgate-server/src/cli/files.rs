//! How many files the process may have open: every connection is one.

use rustix::process::{Resource, getrlimit, setrlimit};

/// As many as the system lets us have. The bound that processes begin with is for programs that cannot bear more, and there are no such here.
pub(super) fn allow_many(connections: usize) {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the number of open files could not be raised");
    }
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if most < connections as u64 {
        tracing::debug!(
            most,
            connections,
            "fewer open files are allowed than connections: the system will refuse first"
        );
    }
}
