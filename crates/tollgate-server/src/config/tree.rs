//! A file as a tree of nodes with their places, for TOML and YAML alike.

use super::problem::TextPosition;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: TextPosition,
    pub(crate) value: Value,
    /// Whether the text starts exactly at `at` and is written there without escapes. Then a place
    /// inside it can be shown.
    pub(crate) verbatim: bool,
}

/// The kinds of values in a file.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Nothing,
    /// An unquoted scalar as it was written: a number, a boolean, or in YAML a string.
    Plain(String),
    /// A quoted string.
    Text(String),
    List(Vec<Node>),
    Table(Table),
}

/// Names and values in the order of the file.
pub(crate) type Table = Vec<(Name, Node)>;

/// A name in a table.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) at: TextPosition,
    pub(crate) text: String,
}

impl Node {
    pub(crate) fn new(at: TextPosition, value: Value) -> Node {
        Node { at, value, verbatim: false }
    }

    /// The kind of the value, for messages.
    pub(crate) fn kind(&self) -> String {
        match &self.value {
            Value::Nothing => "nothing".to_owned(),
            Value::Plain(text) => shown(text),
            Value::Text(text) => format!("the text {}", quoted(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }
}

/// Finds the value of a name.
pub(crate) fn find<'a>(table: &'a Table, name: &str) -> Option<&'a Node> {
    table.iter().find(|(other, _)| other.text == name).map(|(_, node)| node)
}

/// A piece of a file for messages, cut if it is long.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The piece in quotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", shown(text))
}

/// The starts of all lines of a text, to turn offsets into places.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str) -> Lines<'a> {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Lines { text, starts }
    }

    /// The place of a byte.
    pub(crate) fn place(&self, offset: usize) -> TextPosition {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line.saturating_sub(1)];
        let before = self.text.get(start..offset).unwrap_or_default();
        TextPosition { line, column: before.chars().count() + 1 }
    }

    /// The text of a range of bytes.
    pub(crate) fn slice(&self, span: std::ops::Range<usize>) -> &'a str {
        self.text.get(span).unwrap_or_default()
    }
}
