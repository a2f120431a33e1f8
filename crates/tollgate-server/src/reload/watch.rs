//! Watches files for changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// A change is complete after this much silence.
const QUIET: Duration = Duration::from_millis(100);

/// The most waits for silence, for files that never rest.
const ROUNDS: usize = 20;

/// The most symbolic links on the path to a file, as in the kernel.
const LINKS: usize = 40;

/// Waits for files to change. It watches directories, not files: editors, and Kubernetes with its
/// symbolic links, replace a file by another one.
#[derive(Debug)]
pub(super) struct Watch {
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    happened: Arc<Notify>,
}

impl Watch {
    pub(super) fn new() -> Watch {
        let happened = Arc::new(Notify::new());
        let tell = Arc::clone(&happened);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Reading is an event too, and we read the files ourselves.
            if !event.is_ok_and(|event| event.kind.is_access()) {
                tell.notify_one();
            }
        });
        let watcher = watcher.inspect_err(|error| {
            tracing::warn!(%error, "files cannot be watched; SIGHUP still works");
        });
        Watch { watcher: watcher.ok(), watched: BTreeSet::new(), happened }
    }

    /// Watches exactly these files from now on. Returns true if some of them were not watched
    /// before, and may have changed unseen.
    pub(super) fn look_at(&mut self, sources: &[PathBuf]) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let wanted: BTreeSet<_> = sources.iter().flat_map(|path| directories(path)).collect();
        for old in self.watched.difference(&wanted) {
            let _ = watcher.unwatch(old);
        }
        let mut watched: BTreeSet<_> = self.watched.intersection(&wanted).cloned().collect();
        for new in wanted.difference(&self.watched) {
            match watcher.watch(new, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    watched.insert(new.clone());
                }
                Err(error) => {
                    tracing::warn!(directory = %new.display(), %error, "cannot be watched: SIGHUP still works");
                }
            }
        }
        let new = !watched.is_subset(&self.watched);
        self.watched = watched;
        new
    }

    /// Returns after a change, when it is complete. A directory that was replaced is watched again.
    pub(super) async fn changed(&mut self) {
        self.happened.notified().await;
        for _ in 0..ROUNDS {
            if tokio::time::timeout(QUIET, self.happened.notified()).await.is_err() {
                break;
            }
        }
        // A directory that was deleted and created again is a new one and must be watched again.
        let gone = |path: &&PathBuf| !path.is_dir();
        let gone: Vec<_> = self.watched.iter().filter(gone).cloned().collect();
        for path in gone {
            self.watched.remove(&path);
        }
    }
}

/// The directories to watch for a path: that of each symbolic link on the way, and that of the
/// final file.
fn directories(path: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for _ in 0..LINKS {
        let Some((link, target)) = first_link(&path) else { break };
        let directory = link.parent().unwrap_or(Path::new("/")).to_owned();
        let rest = path.strip_prefix(&link).unwrap_or(Path::new("")).to_owned();
        path = if rest.as_os_str().is_empty() {
            directory.join(target)
        } else {
            directory.join(target).join(rest)
        };
        found.insert(directory);
    }
    if path.is_dir() {
        found.insert(path.clone());
    }
    found.extend(path.parent().map(Path::to_owned));
    found
}

/// The first part of a path that is a symbolic link, and its target.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut here = PathBuf::new();
    path.components().find_map(|part| {
        here.push(part);
        std::fs::read_link(&here).ok().map(|target| (here.clone(), target))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tollgate_testservers::Directory;

    use super::*;

    #[test]
    fn all_links_on_a_path_are_watched() {
        let dir = Directory::new();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("mount/..v1")).unwrap();
        std::fs::write(root.join("mount/..v1/file"), "").unwrap();
        symlink("..v1", root.join("mount/..data")).unwrap();
        symlink("..data/file", root.join("mount/file")).unwrap();
        symlink("mount", root.join("way")).unwrap();
        let found = directories(&root.join("way/file"));
        let expected: BTreeSet<_> =
            ["", "mount", "mount/..v1"].iter().map(|name| root.join(name)).collect();
        let clean = |path: &PathBuf| path.components().collect::<PathBuf>();
        assert_eq!(
            found.iter().map(clean).collect::<BTreeSet<_>>(),
            expected.iter().map(clean).collect()
        );
        symlink("loop", root.join("loop")).unwrap();
        assert!(directories(&root.join("loop")).contains(&root));
    }
}
