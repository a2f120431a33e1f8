//! Standard output of commands.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};

/// Writes a text. A reader that closes the pipe early, such as `head`, causes no error.
///
/// # Errors
/// When the text cannot be written for another reason, such as a full disk.
pub(super) fn say(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("the output cannot be written: {error}"))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error, and ignores errors.
pub(super) fn complain(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// An error and its causes in one line: "connection error" alone does not explain anything.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
