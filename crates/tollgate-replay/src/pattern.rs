//! Lines of text that a pattern describes, in the syntax of nginx's `log_format`:
//! `$remote_addr - $remote_user [$time_local] "$request" $status`.
//!
//! `$name` or `${name}` is a field, and everything else stands in the line as it is. A field ends
//! where the text after it begins. A field in quotes may hold quotes that are written `\"`. A field
//! whose name begins with an underscore is skipped. Lines may go on after the end of the pattern.

use crate::row::Row;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// The text before the first field.
    start: Vec<u8>,
    fields: Vec<Field>,
}

#[derive(Clone, Debug)]
struct Field {
    name: String,
    /// The text that ends it; empty for the last field of a line.
    end: Vec<u8>,
    in_quotes: bool,
    column: Option<usize>,
}

impl Pattern {
    /// Compiles a pattern.
    pub(crate) fn new(text: &str) -> Result<Pattern, String> {
        let mut fields: Vec<Field> = Vec::new();
        let mut literal = String::new();
        let mut start = None;
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            literal.push_str(&rest[..at]);
            let (name, after) = field_name(&rest[at + 1..])
                .ok_or_else(|| format!("format {text:?}: a $ stands before no name"))?;
            match fields.last_mut() {
                None => start = Some(std::mem::take(&mut literal)),
                Some(before) if literal.is_empty() => {
                    return Err(format!(
                        "format {text:?}: nothing separates ${} from ${name}",
                        before.name
                    ));
                }
                Some(before) => before.ends_at(&std::mem::take(&mut literal)),
            }
            let quoted = rest[..at].ends_with('"');
            fields.push(Field {
                name: name.to_owned(),
                end: Vec::new(),
                in_quotes: quoted,
                column: None,
            });
            rest = after;
        }
        literal.push_str(rest);
        let Some(last) = fields.last_mut() else {
            return Err(format!(
                "format {text:?}: no fields; a field is written as $remote_addr or $status"
            ));
        };
        last.ends_at(&literal);
        Ok(Pattern { start: start.unwrap_or_default().into_bytes(), fields })
    }

    /// The names of all fields that are not skipped.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| &field.name[..]).filter(|name| !name.starts_with('_'))
    }

    /// Says which column each field goes to.
    pub(crate) fn assign(&mut self, column: impl Fn(&str) -> Option<usize>) {
        for field in &mut self.fields {
            field.column = column(&field.name);
        }
    }

    /// Parses a line; false if it does not have this form.
    pub(crate) fn read(&self, line: &[u8], row: &mut Row) -> bool {
        let Some(mut rest) = line.strip_prefix(&self.start[..]) else { return false };
        for field in &self.fields {
            let Some(length) = field.length(rest) else { return false };
            let value = &rest[..length];
            if let Some(column) = field.column {
                if field.in_quotes && memchr::memchr(b'\\', value).is_some() {
                    row.set(column, &unescaped(value));
                } else {
                    row.set(column, value);
                }
            }
            rest = &rest[length + field.end.len()..];
        }
        true
    }
}

impl Field {
    fn ends_at(&mut self, literal: &str) {
        self.in_quotes &= literal.starts_with('"');
        self.end = literal.as_bytes().to_vec();
    }

    /// The length of the field at the start of this text.
    fn length(&self, text: &[u8]) -> Option<usize> {
        match &self.end[..] {
            // The last field of the pattern: up to a blank, as the line may go on.
            [] => Some(memchr::memchr2(b' ', b'\t', text).unwrap_or(text.len())),
            [b'"', ..] if self.in_quotes => end_of_quoted(text, &self.end),
            end => end_of_field(text, end),
        }
    }
}

/// The end of a field: the first place where the text after the field begins.
fn end_of_field(text: &[u8], end: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr(*end.first()?, &text[from..])?;
        if text[at..].starts_with(end) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// The place of the quote that ends a quoted field: one after an even number of backslashes,
/// followed by the rest of `end`.
fn end_of_quoted(text: &[u8], end: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr(b'"', &text[from..])?;
        let backslashes = text[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes.is_multiple_of(2) && text[at..].starts_with(end) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Removes the escapes that servers write: `\"`, `\\` and `\x22`.
fn unescaped(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        match after {
            [b'x' | b'X', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                out.push(hex(*high) << 4 | hex(*low));
                rest = after;
            }
            [escaped @ (b'"' | b'\\'), after @ ..] => {
                out.push(*escaped);
                rest = after;
            }
            _ => out.push(b'\\'),
        }
    }
    out
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// The name at the start of a text, in braces or up to the first character that no name has.
fn field_name(text: &str) -> Option<(&str, &str)> {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.split_once('}').filter(|(name, _)| !name.is_empty());
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pattern: &str, line: &str) -> Option<Vec<String>> {
        let mut pattern = Pattern::new(pattern).unwrap();
        let names: Vec<String> = pattern.names().map(str::to_owned).collect();
        pattern.assign(|name| names.iter().position(|known| known == name));
        let mut row = Row::default();
        row.clear(names.len());
        pattern.read(line.as_bytes(), &mut row).then(|| {
            let value = |column| String::from_utf8_lossy(row.get(column).unwrap_or(b"-")).into();
            (0..names.len()).map(value).collect()
        })
    }

    #[test]
    fn fields_end_where_the_text_after_them_begins() {
        let pattern = "$remote_addr $_ $user [$time_local] \"$request\" $status";
        let line = "192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 512 \"-\"";
        let expected = ["192.0.2.1", "-", "10/Oct/2026:13:55:36 +0000", "GET / HTTP/1.1", "200"];
        assert_eq!(values(pattern, line).unwrap(), expected);
        assert_eq!(values(pattern, "192.0.2.1 - - 10/Oct/2026"), None);
    }

    #[test]
    fn quoted_fields_may_hold_escaped_quotes() {
        let pattern = "\"$a\" \"$b\"";
        let value = |line| values(pattern, line).unwrap();
        assert_eq!(value(r#""say \"hi\"" "b""#), [r#"say "hi""#, "b"]);
        assert_eq!(value(r#""\x22\x5c" "b""#), [r#""\"#, "b"]);
        assert_eq!(value(r#""\\" "b""#), [r"\", "b"]);
        assert_eq!(value(r#""a" b" "c""#), [r#"a" b"#, "c"], "apache 1 does not escape");
    }

    #[test]
    fn patterns_that_cannot_be_read_are_refused() {
        for (pattern, why) in [
            ("plain", "no fields"),
            ("$a$b", "nothing separates"),
            ("a $ b", "no name"),
            ("${a", "no name"),
            ("", "no fields"),
        ] {
            let error = Pattern::new(pattern).unwrap_err();
            assert!(error.contains(why), "{pattern}: {error}");
        }
        assert_eq!(values("${a}b$c", "xbz").unwrap(), ["x", "z"]);
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_it_panic(line in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let mut pattern = Pattern::new("$a [$b] \"$c\" $d").unwrap();
            pattern.assign(|_| Some(0));
            let mut row = Row::default();
            row.clear(1);
            let _ = pattern.read(&line, &mut row);
        }
    }
}
