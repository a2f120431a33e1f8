//! Finds the files to read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Reading;
use super::problem::{Problem, TextPosition};
use crate::rules::Pattern;

/// The extension of a file name, after its last dot.
pub(crate) fn extension(file: &str) -> &str {
    Path::new(file).extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

impl Reading {
    /// Reads every file of a directory that looks like rules, in the order of the names.
    pub(super) fn directory(&mut self, directory: &Path) {
        self.config.sources.push(directory.to_owned());
        match files(directory, None) {
            Ok(files) => files.iter().for_each(|file| self.rule_file(file)),
            Err(error) => {
                let file = Arc::from(directory.display().to_string());
                self.problems.push(Problem::of_file(&file, error.to_string()));
            }
        }
    }

    /// Reads an include: a file, a directory, or a name with `*` in its last part, relative to the
    /// main file.
    pub(super) fn include(
        &mut self,
        pattern: &str,
        file: &Arc<str>,
        at: TextPosition,
        main: Option<&Path>,
    ) {
        let mut wrong = |message: String| {
            let TextPosition { line, column } = at;
            let message = format!("include: {pattern:?}: {message}");
            self.problems.push(Problem { file: file.to_string(), line, column, message });
        };
        let Some(main) = main else { return wrong("an include needs a main file".to_owned()) };
        let path = main.parent().unwrap_or(Path::new("")).join(pattern);
        if path.is_dir() {
            return self.directory(&path);
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.contains('*') {
            return if path.exists() {
                self.rule_file(&path);
            } else {
                wrong("no such file".to_owned());
            };
        }
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        match files(&directory, Some(&Pattern::new(name))) {
            Ok(files) => {
                self.config.sources.push(directory);
                files.iter().for_each(|file| self.rule_file(file));
            }
            Err(error) => wrong(error.to_string()),
        }
    }
}

/// The files of a directory by name. Hidden files are skipped: Kubernetes keeps the old versions of
/// mounted files there.
fn files(directory: &Path, pattern: Option<&Pattern>) -> std::io::Result<Vec<PathBuf>> {
    let place = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(place)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let path = directory.join(name);
        let wanted = match pattern {
            Some(pattern) => pattern.matches(name.as_bytes()),
            None => matches!(extension(name), "toml" | "yaml" | "yml" | "json"),
        };
        if wanted && !name.starts_with('.') && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
