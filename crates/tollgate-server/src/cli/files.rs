//! The limit on open files: every connection is one.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::settings::ConnectionSettings;

/// Files other than client connections: listeners, connections to the store, the log, rules that
/// are read again.
const OTHERS: usize = 100;

/// Raises the limit on open files as far as the system allows. If the bounds on connections still
/// do not fit, lowers them. Otherwise clients could use up all files, and then no operator could
/// connect to the admin port.
pub(super) fn bounded(connections: &ConnectionSettings) -> ConnectionSettings {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the number of open files could not be raised");
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    let (max, max_admin) = fitting(files, connections);
    let fits = (max, max_admin) == (connections.max, connections.max_admin);
    if !fits {
        tracing::warn!(
            files,
            connections = connections.max,
            taken = max,
            taken_admin = max_admin,
            "[connections] max needs more open files than the system allows: fewer connections are taken; \
             raise the limit (LimitNOFILE= of systemd, ulimit -n) or lower max"
        );
    }
    ConnectionSettings { max, max_admin, ..connections.clone() }
}

/// Bounds on connections that fit this many open files.
fn fitting(files: usize, connections: &ConnectionSettings) -> (usize, usize) {
    let quarter = files / 4;
    let max_admin = connections.max_admin.min(quarter);
    let left = files - max_admin - OTHERS.min(quarter);
    (connections.max.min(left), max_admin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_leave_files_for_operators_and_for_the_store() {
        let connections = ConnectionSettings::default();
        for (files, expected) in [
            (usize::MAX, (20_000, 200)),
            (20_300, (20_000, 200)),
            (20_299, (19_999, 200)),
            (1024, (724, 200)),
            (256, (128, 64)),
            (0, (0, 0)),
        ] {
            assert_eq!(fitting(files, &connections), expected, "{files}");
        }
    }
}
