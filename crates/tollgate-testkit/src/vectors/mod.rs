//! Vectors: timelines that people read and every store replays. They are in `vectors/` of this
//! crate, in the format of [`read`].

mod format;
mod replay;

pub use format::{Action, Block, EPOCH, Expected, FileLine, Retry, Step, read, show};
pub use replay::{Answerer, Pure, replay};

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../vectors/", $name)))),+]
    };
}

/// All files with their names: first one for each algorithm, then recorded answers of other
/// limiters.
pub const FILES: [(&str, &str); 14] = files![
    "budget.txt",
    "calendar.txt",
    "elastic_window.txt",
    "fixed_window.txt",
    "fixed_window_per_key.txt",
    "gcra.txt",
    "leaky_bucket.txt",
    "moving_window.txt",
    "sliding_window.txt",
    "token_bucket.txt",
    "recorded/hammer.txt",
    "recorded/limits_elastic.txt",
    "recorded/limits_fixed.txt",
    "recorded/limits_moving.txt",
];

/// The blocks of all files.
///
/// # Panics
/// Never: the files are part of the crate, and its tests read them.
///
/// ```
/// assert!(tollgate_testkit::vectors::all().len() > 50);
/// ```
#[must_use]
pub fn all() -> Vec<Block> {
    let read = |(name, text): &(&str, &str)| read(name, text).unwrap_or_else(|e| panic!("{e}"));
    FILES.iter().flat_map(read).collect()
}
