//! Lines that are JSON objects. A column is found by its path: `request.client_ip`.

use serde_json::Value;

use crate::row::Row;

/// JSON lines, and which path goes to which column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Json {
    paths: Vec<(String, usize)>,
}

impl Json {
    pub(crate) fn assign(&mut self, paths: impl Iterator<Item = (String, usize)>) {
        self.paths = paths.collect();
    }

    pub(crate) fn read(&self, line: &[u8], row: &mut Row) -> bool {
        let Ok(object @ Value::Object(_)) = serde_json::from_slice(line) else { return false };
        for (path, column) in &self.paths {
            match find(&object, path) {
                Some(Value::String(text)) => row.set(*column, text.as_bytes()),
                Some(Value::Number(number)) => row.set(*column, number.to_string().as_bytes()),
                Some(Value::Bool(truth)) => row.set(*column, truth.to_string().as_bytes()),
                // Caddy writes headers as lists.
                Some(Value::Array(items)) => {
                    if let Some(Value::String(text)) = items.first() {
                        row.set(*column, text.as_bytes());
                    }
                }
                _ => {}
            }
        }
        true
    }
}

/// The value at a path. A key that holds points itself is found too.
pub(crate) fn find<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    if let Some(found) = value.get(path) {
        return Some(found);
    }
    path.match_indices('.').find_map(|(at, _)| find(value.get(&path[..at])?, &path[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_path() {
        let mut json = Json::default();
        let paths = ["request.client_ip", "status", "a.b", "request.headers.X-Key", "missing"];
        json.assign(paths.iter().enumerate().map(|(column, path)| ((*path).to_owned(), column)));
        let line = r#"{"request":{"client_ip":"192.0.2.1","headers":{"X-Key":["k"]}},"status":200,"a.b":true}"#;
        let mut row = Row::default();
        row.clear(paths.len());
        assert!(json.read(line.as_bytes(), &mut row));
        let values: Vec<_> = (0..paths.len()).map(|column| row.get(column)).collect();
        assert_eq!(
            values,
            [Some(&b"192.0.2.1"[..]), Some(b"200"), Some(b"true"), Some(b"k"), None]
        );
        assert!(!json.read(b"[1]", &mut row));
        assert!(!json.read(b"{", &mut row));
    }
}
