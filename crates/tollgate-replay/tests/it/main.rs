//! Whole replays of logs that the tests write.

mod logs;
mod reports;
mod verdicts;
