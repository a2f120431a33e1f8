//! Parses TOML into a tree.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Diagnostics, TextPosition};
use super::tree::{Lines, Name, Node, Table, Value};

/// The tree of a text. Reports a problem and returns `None` if the text is not valid.
pub(crate) fn tree(text: &str, diagnostics: &Diagnostics) -> Option<Node> {
    let lines = Lines::new(text);
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(TextPosition::START, |span| lines.place(span.start));
        diagnostics.wrong(at, error.message().trim().replace('\n', "; "));
    }
    let root = Value::Table(table(root.get_ref(), &lines));
    errors.is_empty().then(|| Node::new(TextPosition::START, root))
}

fn table(table: &DeTable<'_>, lines: &Lines<'_>) -> Table {
    let mut entries: Vec<_> = table.iter().collect();
    // In the order of the file, which matters for patterns.
    entries.sort_by_key(|(name, _)| name.span().start);
    let entries = entries.into_iter().map(|(name, value)| {
        let at = lines.place(name.span().start);
        (Name { at, text: name.get_ref().clone().into_owned() }, node(value, at, lines))
    });
    entries.collect()
}

fn node(spanned: &Spanned<DeValue<'_>>, name: TextPosition, lines: &Lines<'_>) -> Node {
    let span = spanned.span();
    let at = lines.place(span.start);
    match spanned.get_ref() {
        DeValue::String(text) => {
            let written = lines.slice(span.clone());
            let inside = written.get(1..written.len().saturating_sub(1)).unwrap_or_default();
            let verbatim = inside == text.as_ref() && !inside.contains('\n');
            let at = if verbatim { at.right(1) } else { at };
            Node { at, value: Value::Text(text.clone().into_owned()), verbatim }
        }
        DeValue::Integer(integer) => {
            let decimal = u64::from_str_radix(integer.as_str(), integer.radix());
            let text = decimal.map_or_else(|_| integer.to_string(), |value| value.to_string());
            Node::new(at, Value::Plain(text))
        }
        DeValue::Float(float) => Node::new(at, Value::Plain(float.to_string())),
        DeValue::Boolean(truth) => Node::new(at, Value::Plain(truth.to_string())),
        DeValue::Datetime(time) => Node::new(at, Value::Plain(time.to_string())),
        DeValue::Array(array) => {
            let nodes = array.iter().map(|item| node(item, lines.place(item.span().start), lines));
            Node::new(at, Value::List(nodes.collect()))
        }
        // The place of a table with a header is the place of its name.
        DeValue::Table(inner) => Node::new(name, Value::Table(table(inner, lines))),
    }
}
