//! Temporary directories of tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A new, empty directory. Drop removes it with everything in it.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Makes a directory below the system's directory for temporary files.
    ///
    /// # Panics
    /// When it cannot be made.
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    #[must_use]
    pub fn new() -> Directory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tollgate-test-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        Directory(dir)
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
