//! A table that is read name by name. Names that were never read are unknown and reported.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::de;
use super::problem::{Diagnostics, TextPosition};
use super::tree::{Name, Node, Table, Value, quoted};
use super::value::FromNode;
use crate::rules::SourceLocation;

/// A table of a file while it is read.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    diagnostics: &'a Diagnostics,
    table: &'a Table,
    /// The start of the table.
    pub(crate) at: TextPosition,
    path: String,
    asked: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// The section of a node. Reports a problem if the node is not a table.
    pub(crate) fn of(
        node: &'a Node,
        path: String,
        diagnostics: &'a Diagnostics,
    ) -> Option<Section<'a>> {
        match &node.value {
            Value::Table(table) => {
                Some(Section { diagnostics, table, at: node.at, path, asked: Vec::new() })
            }
            _ => {
                let place = if path.is_empty() { "the file".to_owned() } else { path };
                diagnostics
                    .wrong(node.at, format!("{place}: expected a table, found {}", node.kind()));
                None
            }
        }
    }

    /// The full path of a name in this table.
    pub(crate) fn path(&self, name: &str) -> String {
        let bare = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        let name = if bare { name.to_owned() } else { quoted(name) };
        if self.path.is_empty() { name } else { format!("{}.{name}", self.path) }
    }

    /// The node of a name, unless it is null.
    pub(crate) fn node(&mut self, name: &'static str) -> Option<&'a Node> {
        self.asked.push(name);
        let (_, node) = self.table.iter().find(|(other, _)| other.text == name)?;
        (!matches!(node.value, Value::Nothing)).then_some(node)
    }

    /// Whether the table has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.table.iter().any(|(other, _)| other.text == name)
    }

    /// The value of a name, if it exists and is valid.
    pub(crate) fn value<T: FromNode>(&mut self, name: &'static str) -> Option<T> {
        let node = self.node(name)?;
        self.convert(name, node)
    }

    /// Converts a node. Reports a problem under this name.
    pub(crate) fn convert<T: FromNode>(&self, name: &str, node: &Node) -> Option<T> {
        T::from_node(node)
            .map_err(|wrong| {
                self.wrong(name, wrong.at, wrong.message);
            })
            .ok()
    }

    /// Converts a node whose name may contain dots.
    pub(crate) fn convert_in<T: FromNode>(&self, name: &str, node: &Node) -> Option<T> {
        let path =
            if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        self.convert_at(&path, node)
    }

    /// Converts a node under a full path.
    pub(crate) fn convert_at<T: FromNode>(&self, path: &str, node: &Node) -> Option<T> {
        T::from_node(node).map_err(|wrong| self.wrong_at(path, wrong.at, &wrong.message)).ok()
    }

    /// Reports a problem under a full path.
    pub(crate) fn wrong_at(&self, path: &str, at: TextPosition, message: &str) {
        self.diagnostics.wrong(at, format!("{path}: {message}"));
    }

    /// Stores the value of a name in `place`, if the table has it.
    pub(crate) fn put<T: FromNode>(&mut self, name: &'static str, place: &mut T) {
        if let Some(value) = self.value(name) {
            *place = value;
        }
    }

    /// Stores the value of a name in an optional field.
    pub(crate) fn put_some<T: FromNode>(&mut self, name: &'static str, place: &mut Option<T>) {
        if let Some(value) = self.value(name) {
            *place = Some(value);
        }
    }

    /// Deserializes a section into a struct, if the table has it.
    pub(crate) fn put_section<T: DeserializeOwned>(&mut self, name: &'static str, place: &mut T) {
        let Some(node) = self.node(name) else { return };
        match de::from_node(node) {
            Ok(value) => *place = value,
            Err(wrong) => self.wrong(name, wrong.at, wrong.message),
        }
    }

    /// A table inside this table.
    pub(crate) fn section(&mut self, name: &'static str) -> Option<Section<'a>> {
        let node = self.node(name)?;
        Section::of(node, self.path(name), self.diagnostics)
    }

    /// The entries of a table with free names, each with its value and its full path.
    pub(crate) fn entries(&mut self, name: &'static str) -> Vec<(&'a Name, &'a Node)> {
        let Some(section) = self.section(name) else { return Vec::new() };
        section.table.iter().map(|(name, node)| (name, node)).collect()
    }

    /// A list. A single value is a list of one.
    pub(crate) fn list(&mut self, name: &'static str) -> &'a [Node] {
        match self.node(name) {
            None => &[],
            Some(Node { value: Value::List(nodes), .. }) => nodes,
            Some(node) => std::slice::from_ref(node),
        }
    }

    /// A table inside a table with free names.
    pub(crate) fn inner(&self, node: &'a Node, path: String) -> Option<Section<'a>> {
        Section::of(node, path, self.diagnostics)
    }

    /// Reports a problem of a name.
    pub(crate) fn wrong(&self, name: &str, at: TextPosition, message: impl AsRef<str>) {
        self.diagnostics.wrong(at, format!("{}: {}", self.path(name), message.as_ref()));
    }

    /// Reports a problem of the table as a whole.
    pub(crate) fn wrong_here(&self, message: impl AsRef<str>) {
        let message = message.as_ref();
        let path = &self.path;
        let message =
            if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") };
        self.diagnostics.wrong(self.at, message);
    }

    /// Reports a warning.
    pub(crate) fn warn(&self, name: &str, at: TextPosition, message: &str) {
        self.diagnostics.warn(at, format!("{}: {message}", self.path(name)));
    }

    /// The place of a name.
    pub(crate) fn place(&self, name: &str) -> TextPosition {
        let found = self.table.iter().find(|(other, _)| other.text == name);
        found.map_or(self.at, |(name, _)| name.at)
    }

    /// The location of a path.
    pub(crate) fn location(&self, path: &str, at: TextPosition) -> SourceLocation {
        let TextPosition { line, column } = at;
        SourceLocation {
            file: Arc::clone(self.diagnostics.file()),
            line,
            column,
            path: path.into(),
        }
    }

    /// Ends the section: every name that was not read is reported as unknown.
    pub(crate) fn end(self) {
        for (name, _) in self.table {
            if !self.asked.contains(&&name.text[..]) {
                let hint = match nearest(&name.text, &self.asked) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("known are {}", self.asked.join(", ")),
                };
                self.diagnostics
                    .wrong(name.at, format!("{}: unknown; {hint}", self.path(&name.text)));
            }
        }
    }
}

/// The known name that is closest to a misspelled one.
fn nearest(text: &str, names: &[&'static str]) -> Option<&'static str> {
    let far = |name: &&'static str| (strsim::levenshtein(text, name), *name);
    let (distance, name) = names.iter().map(far).min()?;
    (distance <= 2 && distance < name.len() / 2 + 1).then_some(name)
}
