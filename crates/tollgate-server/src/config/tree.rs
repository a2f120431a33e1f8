//! A file as a tree whose every part knows its place, whatever it was written in.

use super::problem::Place;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: Place,
    pub(crate) value: Value,
    /// Whether the text begins exactly at `at` and stands there as it is: then a place inside it
    /// can be shown.
    pub(crate) verbatim: bool,
}

/// What can stand in a file.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Nothing,
    /// Without quotes: a number, a truth, or in YAML a text too. As it was written.
    Plain(String),
    /// A text.
    Text(String),
    List(Vec<Node>),
    Table(Table),
}

/// Names and values, as they were written.
pub(crate) type Table = Vec<(Name, Node)>;

/// A name in a table.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) at: Place,
    pub(crate) text: String,
}

impl Node {
    pub(crate) fn new(at: Place, value: Value) -> Node {
        Node { at, value, verbatim: false }
    }

    /// What it is, for messages.
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

/// The value of a name.
pub(crate) fn find<'a>(table: &'a Table, name: &str) -> Option<&'a Node> {
    table.iter().find(|(other, _)| other.text == name).map(|(_, node)| node)
}

/// A piece of a file as messages show it: not too long.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The same in quotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", shown(text))
}

/// Where the lines of a text begin, to turn offsets into places.
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
    pub(crate) fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line.saturating_sub(1)];
        let before = self.text.get(start..offset).unwrap_or_default();
        Place { line, column: before.chars().count() + 1 }
    }

    /// The text from one byte to another.
    pub(crate) fn slice(&self, span: std::ops::Range<usize>) -> &'a str {
        self.text.get(span).unwrap_or_default()
    }
}
