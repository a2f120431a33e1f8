//! Whole replays of logs that the tests write.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod logs;
mod reports;
mod verdicts;
