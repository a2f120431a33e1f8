//! Finds the packages of the workspace by looking at its directories.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// A directory inside the target directory, for builds whose flags would invalidate the usual one.
pub(crate) fn target_dir(name: &str) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => Path::new(&dir).join(name),
        None => root().join("target").join(name),
    }
}

/// The packages under crates/. Each has the name of its directory.
pub(crate) fn crates() -> Vec<(String, PathBuf)> {
    entries(&root().join("crates"))
        .into_iter()
        .filter(|path| path.join("Cargo.toml").is_file())
        .filter_map(|path| Some((stem(&path)?, path)))
        .collect()
}

pub(crate) fn published_crates() -> Vec<String> {
    let published = |manifest: &str| !manifest.lines().any(|line| line.trim() == "publish = false");
    crates()
        .into_iter()
        .filter(|(_, path)| {
            fs::read_to_string(path.join("Cargo.toml")).is_ok_and(|text| published(&text))
        })
        .map(|(name, _)| name)
        .collect()
}

/// Every example as (package, example).
pub(crate) fn examples() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (package, path) in crates() {
        for example in entries(&path.join("examples")) {
            let is_example =
                example.extension() == Some(OsStr::new("rs")) || example.join("main.rs").is_file();
            if let (true, Some(name)) = (is_example, stem(&example)) {
                found.push((package.clone(), name));
            }
        }
    }
    found
}

pub(crate) fn fuzz_targets() -> Vec<String> {
    entries(&root().join("fuzz/fuzz_targets")).iter().filter_map(|path| stem(path)).collect()
}

/// The `rust-version` of the root manifest.
pub(crate) fn rust_version(manifest: &str) -> Option<&str> {
    let line = manifest.lines().find(|line| line.starts_with("rust-version"))?;
    line.split('"').nth(1)
}

/// Sorted, so that every run has the same order. Empty if the directory does not exist.
pub(crate) fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = match fs::read_dir(directory) {
        Ok(entries) => entries.filter_map(Result::ok).map(|entry| entry.path()).collect(),
        Err(_) => Vec::new(),
    };
    paths.sort();
    paths
}

fn stem(path: &Path) -> Option<String> {
    path.file_stem()?.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_version_is_read_from_the_root_manifest() {
        assert_eq!(rust_version("[workspace.package]\nrust-version = \"1.88\"\n"), Some("1.88"));
        let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert!(rust_version(&manifest).is_some());
    }

    #[test]
    fn servers_for_tests_are_not_published() {
        let published = published_crates();
        assert!(published.contains(&"tollgate-testkit".to_owned()), "{published:?}");
        assert!(!published.contains(&"tollgate-testservers".to_owned()), "{published:?}");
    }

    #[test]
    fn cargo_test_at_the_root_runs_every_published_crate() {
        let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let defaults = manifest.split("default-members = [").nth(1).unwrap();
        let defaults = defaults.split(']').next().unwrap();
        for package in published_crates() {
            assert!(defaults.contains(&format!("\"crates/{package}\"")), "{package} is missing");
        }
    }
}
