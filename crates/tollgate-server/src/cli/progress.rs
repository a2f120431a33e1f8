//! The progress of a command that reads files, on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use tollgate::{Clock as _, SystemClock, Timestamp};
use tollgate_replay::Progress;
use tollgate_report::grouped;

/// A line with a bar, the rate and the remaining time. It is shown only on a terminal.
pub(super) struct ProgressLine {
    clock: SystemClock,
    began: Timestamp,
    shown: Timestamp,
    /// The bytes of all logs; `None` if one is no file.
    total: Option<u64>,
    shows: bool,
}

impl ProgressLine {
    pub(super) fn new(logs: &[PathBuf], quiet: bool) -> ProgressLine {
        let clock = SystemClock::new();
        let length = |log: &PathBuf| std::fs::metadata(log).ok().map(|file| file.len());
        let (began, total) = (clock.now(), logs.iter().map(length).sum());
        let shows = !quiet && std::io::stderr().is_terminal();
        ProgressLine { clock, began, shown: began, total, shows }
    }

    /// Shows the progress at most five times a second.
    pub(super) fn show(&mut self, progress: Progress) {
        let now = self.clock.now();
        if !self.shows || now.since(self.shown) < Duration::from_millis(200) {
            return;
        }
        self.shown = now;
        let millis = now.since(self.began).as_millis().max(1);
        let line = line(progress, self.total, millis);
        drop(write!(std::io::stderr(), "\r{line:<79}"));
    }

    pub(super) fn clear(&self) {
        if self.shows {
            drop(write!(std::io::stderr(), "\r{:79}\r", ""));
        }
    }
}

/// The line to show after this many milliseconds, where the files have `total` bytes in all.
fn line(progress: Progress, total: Option<u64>, millis: u128) -> String {
    let per_second = u64::try_from(u128::from(progress.lines) * 1_000 / millis);
    let so_far = format!(
        "{} requests, {}/s",
        grouped(progress.lines),
        grouped(per_second.unwrap_or(u64::MAX))
    );
    let Some(total) = total.filter(|_| progress.bytes > 0) else { return so_far };
    let bytes = progress.bytes.min(total);
    let seconds = u128::from(total - bytes) * millis / u128::from(progress.bytes) / 1_000;
    let done = usize::try_from(u128::from(bytes) * 20 / u128::from(total.max(1))).unwrap_or(20);
    format!(
        "[{:<20}] {:>3} %  {so_far}, {}:{:02} left",
        "#".repeat(done),
        u128::from(bytes) * 100 / u128::from(total.max(1)),
        seconds / 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_a_rate_and_the_time_that_is_left() {
        let progress = Progress { lines: 3_000_000, bytes: 250 };
        assert_eq!(
            line(progress, Some(1_000), 2_000),
            "[#####               ]  25 %  3,000,000 requests, 1,500,000/s, 0:06 left"
        );
        assert_eq!(line(progress, None, 2_000), "3,000,000 requests, 1,500,000/s");
    }
}
