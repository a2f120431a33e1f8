//! Parses YAML into a tree.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::problem::{Diagnostics, TextPosition};
use super::tree::{Name, Node, Table, Value, find, quoted};

/// The most nodes that aliases may repeat. A few lines of aliases can otherwise expand to billions
/// of nodes.
const MOST: usize = 200_000;

/// The tree of a text. Reports a problem and returns `None` if the text is not valid.
pub(crate) fn tree(text: &str, diagnostics: &Diagnostics) -> Option<Node> {
    let mut builder = Builder {
        text,
        diagnostics,
        parts: 0,
        repeated: 0,
        anchors: HashMap::new(),
        open: Vec::new(),
        root: None,
    };
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                let marker = error.marker();
                let at = TextPosition { line: marker.line(), column: marker.col() + 1 };
                diagnostics.wrong(at, error.info());
                return None;
            }
        };
        if let Err((at, message)) = builder.take(event, span) {
            diagnostics.wrong(at, message);
            return None;
        }
    }
    let root =
        builder.root.unwrap_or_else(|| Node::new(TextPosition::START, Value::Table(Vec::new())));
    (!diagnostics.has_problems()).then_some(root)
}

type Refused = (TextPosition, String);

struct Builder<'a> {
    text: &'a str,
    diagnostics: &'a Diagnostics,
    /// The number of nodes so far, and how many of them came from aliases.
    parts: usize,
    repeated: usize,
    anchors: HashMap<usize, (Node, usize)>,
    open: Vec<Open>,
    root: Option<Node>,
}

/// A list or a table that is not closed yet.
struct Open {
    at: TextPosition,
    anchor: usize,
    /// The number of nodes before it.
    before: usize,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    /// The entries so far, the name whose value comes next, and the line of each name.
    Table(Table, Option<Name>, HashMap<String, usize>),
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Refused> {
        let at = TextPosition { line: span.start.line(), column: span.start.col() + 1 };
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                Err((at, "a second document: a file holds one".to_owned()))
            }
            Event::Scalar(text, style, anchor, tag) => {
                let node = self.scalar(&text, style, tag.as_deref(), at, span)?;
                self.parts += 1;
                if anchor > 0 {
                    self.anchors.insert(anchor, (node.clone(), 1));
                }
                self.put(node)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.begin(Inside::List(Vec::new()), at, anchor, tag.as_deref())
            }
            Event::MappingStart(_, anchor, tag) => self.begin(
                Inside::Table(Vec::new(), None, HashMap::new()),
                at,
                anchor,
                tag.as_deref(),
            ),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let Some((node, parts)) = self.anchors.get(&anchor).cloned() else {
                    return Err((at, "an alias inside the value that it refers to".to_owned()));
                };
                self.repeat(parts, at)?;
                self.put(Node { at, ..node })
            }
            _ => Ok(()),
        }
    }

    fn repeat(&mut self, parts: usize, at: TextPosition) -> Result<(), Refused> {
        self.parts += parts;
        self.repeated += parts;
        if self.repeated > MOST {
            return Err((at, format!("aliases repeat more than {MOST} parts of the file")));
        }
        Ok(())
    }

    fn scalar(
        &self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        at: TextPosition,
        span: Span,
    ) -> Result<Node, Refused> {
        let plain = style == ScalarStyle::Plain;
        let value = match tag.map(known) {
            Some(None) => {
                return Err((at, "a tag: those of YAML itself are known here".to_owned()));
            }
            Some(Some("str")) => Value::Text(text.to_owned()),
            _ if plain && matches!(text, "" | "~" | "null" | "Null" | "NULL") => Value::Nothing,
            _ if plain => Value::Plain(text.to_owned()),
            _ => Value::Text(text.to_owned()),
        };
        let written = span.slice(self.text).unwrap_or_default();
        let quotes = usize::from(!plain);
        let inside = written.get(quotes..written.len().saturating_sub(quotes)).unwrap_or_default();
        let verbatim = inside == text && !text.contains('\n');
        let at = if verbatim { at.right(quotes) } else { at };
        Ok(Node { at, value, verbatim })
    }

    fn begin(
        &mut self,
        inside: Inside,
        at: TextPosition,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), Refused> {
        if tag.is_some_and(|tag| known(tag).is_none()) {
            return Err((at, "a tag: those of YAML itself are known here".to_owned()));
        }
        let before = self.parts;
        self.parts += 1;
        self.open.push(Open { at, anchor, before, inside });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Refused> {
        let Some(Open { at, anchor, before, inside }) = self.open.pop() else { return Ok(()) };
        let value = match inside {
            Inside::List(nodes) => Value::List(nodes),
            Inside::Table(table, ..) => Value::Table(merged(table)?),
        };
        let node = Node::new(at, value);
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), self.parts - before));
        }
        self.put(node)
    }

    fn put(&mut self, node: Node) -> Result<(), Refused> {
        match self.open.last_mut().map(|open| &mut open.inside) {
            None => self.root = Some(node),
            Some(Inside::List(nodes)) => nodes.push(node),
            Some(Inside::Table(table, name, lines)) => match name.take() {
                None => *name = Some(name_of(node)?),
                Some(name) => {
                    if name.text != MERGE
                        && let Some(line) = lines.insert(name.text.clone(), name.at.line)
                    {
                        let text = quoted(&name.text);
                        let message = format!("{text}: written twice, first in line {line}");
                        self.diagnostics.wrong(name.at, message);
                    }
                    // The place of a table is that of its name, as in TOML.
                    let at = if matches!(node.value, Value::Table(_)) { name.at } else { node.at };
                    table.push((name, Node { at, ..node }));
                }
            },
        }
        Ok(())
    }
}

fn name_of(node: Node) -> Result<Name, Refused> {
    match node.value {
        Value::Plain(text) | Value::Text(text) => Ok(Name { at: node.at, text }),
        Value::Nothing => Ok(Name { at: node.at, text: "null".to_owned() }),
        _ => Err((node.at, "a name must be a text".to_owned())),
    }
}

fn known(tag: &Tag) -> Option<&str> {
    tag.core_suffix()
}

/// The key that merges another table.
const MERGE: &str = "<<";

/// The table with the entries of its `<<` tables. Its own entries have priority.
fn merged(table: Table) -> Result<Table, Refused> {
    if find(&table, MERGE).is_none() {
        return Ok(table);
    }
    let (merges, mut own): (Table, Table) =
        table.into_iter().partition(|(name, _)| name.text == MERGE);
    for (name, node) in merges {
        let tables = match node.value {
            Value::Table(table) => vec![table],
            Value::List(nodes) => {
                let table = |node: Node| match node.value {
                    Value::Table(table) => Ok(table),
                    _ => Err((node.at, "<<: expected a table or a list of tables".to_owned())),
                };
                nodes.into_iter().map(table).collect::<Result<Vec<_>, _>>()?
            }
            _ => return Err((name.at, "<<: expected a table or a list of tables".to_owned())),
        };
        for entry in tables.into_iter().flatten() {
            if find(&own, &entry.0.text).is_none() {
                own.push(entry);
            }
        }
    }
    Ok(own)
}
