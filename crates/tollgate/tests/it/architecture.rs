//! Tests that every path in ARCHITECTURE.md exists, and that every function named after a path is
//! in that file.

use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../../../ARCHITECTURE.md");

/// Returns the texts between backticks on one line of the page. Each comes with the text before it.
fn quoted(line: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = line.split('`').collect();
    parts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the file or directory below `crates/` or below the root if the text is a path.
fn path_of(text: &str) -> Option<PathBuf> {
    let extensions = [".rs", ".lua", ".sql", ".md", ".toml", "/"];
    let is_path = text.contains('/') && extensions.iter().any(|end| text.ends_with(end));
    let below = |directory: &str| Some(root().join(directory).join(text));
    let candidates = [below("crates"), below("")];
    is_path.then(|| candidates.into_iter().flatten().find(|path| path.exists()).unwrap_or_default())
}

#[test]
fn every_path_in_architecture_exists() {
    let mut paths = 0;
    for line in PAGE.lines() {
        for (_, text) in quoted(line) {
            if let Some(path) = path_of(text) {
                paths += 1;
                assert!(path.exists(), "ARCHITECTURE.md names {text}, which does not exist");
            }
        }
    }
    assert!(paths > 100, "only {paths} paths found: the search does not work");
}

/// The page names functions after a path: `file.rs` (`one`, `another`).
#[test]
fn every_function_in_architecture_is_in_its_file() {
    let mut functions = 0;
    let page = PAGE.replace('\n', " ");
    let mut file = None;
    for (before, text) in quoted(&page) {
        if let Some(path) = path_of(text) {
            file = path.is_file().then_some((text, path));
        } else if matches!(before.trim_start(), "(" | ",")
            && let Some((name, path)) = &file
        {
            functions += 1;
            let source = std::fs::read_to_string(path).expect("a readable file");
            assert!(source.contains(text), "ARCHITECTURE.md names {text} in {name}: not found");
        } else {
            file = None;
        }
    }
    assert!(functions > 30, "only {functions} functions found: the search does not work");
}
