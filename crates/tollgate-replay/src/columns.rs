//! Lines of separated values: CSV with a header, and logs with a `#Fields:` line as CloudFront
//! writes them.

use crate::row::Row;

/// Separated values.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    separator: Separator,
    /// The line with the names. Files that were put together have it several times.
    header: String,
    /// The names of the values in a line, and the column that each goes to.
    names: Vec<(String, Option<usize>)>,
    /// The columns of `date` and `time`, when they are two values.
    date_and_time: Option<(usize, usize)>,
    date_time_column: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    /// CSV with this separator, where values may stand in double quotes.
    Csv(u8),
    /// Tabs, or blanks in lines without a tab.
    TabOrBlank,
}

/// The name of a date and a time in adjacent columns.
pub(crate) const DATE_TIME: &str = "date_time";

impl Columns {
    /// The names are those of a CSV header, separated by comma, semicolon or tab.
    pub(crate) fn from_header(header: &str) -> Option<Columns> {
        let count = |separator: &u8| header.bytes().filter(|byte| byte == separator).count();
        let separator = *b",;\t".iter().max_by_key(|separator| count(separator))?;
        if count(&separator) == 0 {
            return None;
        }
        let unquoted = |name: &str| name.trim().trim_matches('"').to_owned();
        let names = header.split(char::from(separator)).map(unquoted);
        Some(Columns::new(Separator::Csv(separator), header, names))
    }

    /// The names are those of a line such as `#Fields: date time c-ip`; values are separated by
    /// tabs (CloudFront) or blanks (IIS).
    pub(crate) fn from_fields_line(line: &str) -> Option<Columns> {
        let names = line.strip_prefix("#Fields:")?.split_whitespace().map(str::to_owned);
        Some(Columns::new(Separator::TabOrBlank, line, names))
    }

    fn new(separator: Separator, header: &str, names: impl Iterator<Item = String>) -> Columns {
        let names: Vec<_> = names.map(|name| (name, None)).collect();
        let place = |wanted: &str| names.iter().position(|(name, _)| name == wanted);
        let date_and_time = place("date").zip(place("time"));
        let header = header.to_owned();
        Columns { separator, header, names, date_and_time, date_time_column: None }
    }

    /// Whether a line is no request: the header once more, or a comment.
    pub(crate) fn is_header(&self, line: &[u8]) -> bool {
        line.starts_with(b"#") || line == self.header.as_bytes()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let joined = self.date_and_time.map(|_| DATE_TIME);
        // A time of day alone is not enough.
        let alone = move |name: &&str| joined.is_none() || *name != "time";
        self.names.iter().map(|(name, _)| &name[..]).filter(alone).chain(joined)
    }

    pub(crate) fn assign(&mut self, column: impl Fn(&str) -> Option<usize>) {
        self.date_time_column = self.date_and_time.and_then(|_| column(DATE_TIME));
        for (name, assigned) in &mut self.names {
            *assigned = column(name);
        }
    }

    pub(crate) fn read(&self, line: &[u8], row: &mut Row) -> bool {
        let values = self.split(line);
        if values.len() < self.names.len() {
            return false;
        }
        for ((_, column), value) in self.names.iter().zip(&values) {
            if let Some(column) = column {
                row.set(*column, value);
            }
        }
        if let (Some((date, time)), Some(column)) = (self.date_and_time, self.date_time_column) {
            row.set(column, &[&values[date][..], b" ", &values[time]].concat());
        }
        true
    }

    fn split(&self, line: &[u8]) -> Vec<Vec<u8>> {
        let (separator, has_quotes) = match self.separator {
            Separator::Csv(separator) => (separator, true),
            Separator::TabOrBlank if line.contains(&b'\t') => (b'\t', false),
            Separator::TabOrBlank => (b' ', false),
        };
        let mut values = vec![Vec::new()];
        let mut in_quotes = false;
        let mut bytes = line.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            let value = values.last_mut();
            match byte {
                b'"' if has_quotes && in_quotes && bytes.peek() == Some(&b'"') => {
                    bytes.next();
                    value.into_iter().for_each(|value| value.push(b'"'));
                }
                b'"' if has_quotes => in_quotes = !in_quotes,
                byte if byte == separator && !in_quotes => values.push(Vec::new()),
                byte => value.into_iter().for_each(|value| value.push(byte)),
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(columns: &mut Columns, line: &str) -> Option<Vec<Option<String>>> {
        let names: Vec<String> = columns.names().map(str::to_owned).collect();
        columns.assign(|name| names.iter().position(|known| known == name));
        let mut row = Row::default();
        row.clear(names.len());
        columns.read(line.as_bytes(), &mut row).then(|| {
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            (0..names.len()).map(|column| row.get(column).map(text)).collect()
        })
    }

    #[test]
    fn csv_values_may_be_quoted() {
        let mut columns = Columns::from_header("time,\"ip\",path").unwrap();
        let values = row(&mut columns, "1,192.0.2.1,\"/a,b\"\"c\"\"\"").unwrap();
        assert_eq!(values, [Some("1".into()), Some("192.0.2.1".into()), Some("/a,b\"c\"".into())]);
        assert_eq!(row(&mut columns, "1,192.0.2.1"), None, "a value is missing");
        assert!(Columns::from_header("one").is_none());
    }

    #[test]
    fn a_date_and_a_time_become_one_value() {
        let mut columns = Columns::from_fields_line("#Fields: date time c-ip").unwrap();
        assert_eq!(columns.names().collect::<Vec<_>>(), ["date", "c-ip", DATE_TIME]);
        let values = row(&mut columns, "2026-10-10\t13:55:36\t192.0.2.1").unwrap();
        assert_eq!(values[2].as_deref(), Some("2026-10-10 13:55:36"));
        let blanks = row(&mut columns, "2026-10-10 13:55:36 192.0.2.1").unwrap();
        assert_eq!(blanks, values);
        assert!(columns.is_header(b"#Version: 1.0") && !columns.is_header(b"2026"));
    }
}
