//! Counts of the lines of a log.

/// Counts of the lines that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// All lines except headers and empty ones.
    pub lines: u64,
    /// Lines that do not have the format or have no time.
    pub unreadable: u64,
    /// The first unreadable lines.
    pub examples: Vec<UnreadableLine>,
    /// Requests that a filter left out, or the times to replay.
    pub filtered: u64,
    /// Requests that were refused when the log was written, with 429 or a mark. They are replayed
    /// unless the reading leaves them out.
    pub limited: u64,
    /// Requests without a key; they share one.
    pub without_key: u64,
    /// Requests whose field for the cost holds no number; they cost 1.
    pub without_cost: u64,
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableLine {
    /// The file.
    pub log: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// The start of the line; absent in anonymous reports, because it may hold a key.
    pub text: Option<String>,
}

const EXAMPLES: usize = 5;
const SHOWN: usize = 120;

impl LineCounts {
    pub(crate) fn unreadable(&mut self, log: &str, number: u64, line: &[u8]) {
        self.unreadable += 1;
        if self.examples.len() < EXAMPLES {
            let start = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).into_owned();
            let example = UnreadableLine { log: log.to_owned(), line: number, text: Some(start) };
            self.examples.push(example);
        }
    }

    /// The sum of both.
    pub(crate) fn add(&mut self, other: LineCounts) {
        self.lines += other.lines;
        self.unreadable += other.unreadable;
        self.filtered += other.filtered;
        self.limited += other.limited;
        self.without_key += other.without_key;
        self.without_cost += other.without_cost;
        self.examples.extend(other.examples);
        self.examples.truncate(EXAMPLES);
    }
}
