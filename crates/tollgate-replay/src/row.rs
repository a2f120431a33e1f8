//! The values of one line, by column.

/// The values of one line. It is used again for the next line, so that no line allocates.
#[derive(Debug, Default)]
pub(crate) struct Row {
    bytes: Vec<u8>,
    /// Where the value of each column lies in `bytes`.
    spans: Vec<Option<(usize, usize)>>,
}

impl Row {
    /// Empties the row and gives it this number of columns.
    pub(crate) fn clear(&mut self, columns: usize) {
        self.bytes.clear();
        self.spans.clear();
        self.spans.resize(columns, None);
    }

    pub(crate) fn set(&mut self, column: usize, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        if let Some(span) = self.spans.get_mut(column) {
            *span = Some((start, self.bytes.len()));
        }
    }

    /// The value of a column. Logs write `-` for a value that is missing.
    pub(crate) fn get(&self, column: usize) -> Option<&[u8]> {
        let (start, end) = (*self.spans.get(column)?)?;
        let value = self.bytes.get(start..end)?;
        (!matches!(value, b"" | b"-")).then_some(value)
    }
}
