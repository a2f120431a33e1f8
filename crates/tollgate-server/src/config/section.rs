//! A table that is read name by name; what nobody asked for is unknown.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::de;
use super::problem::{Place, Scribe};
use super::tree::{Name, Node, Table, Value, quoted};
use super::value::FromNode;
use crate::rules::SourceLocation;

/// A table of a file while it is read.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    scribe: &'a Scribe,
    table: &'a Table,
    /// Where it begins.
    pub(crate) at: Place,
    path: String,
    asked: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// Of a node, unless it is no table: then that is written down.
    pub(crate) fn of(node: &'a Node, path: String, scribe: &'a Scribe) -> Option<Section<'a>> {
        match &node.value {
            Value::Table(table) => {
                Some(Section { scribe, table, at: node.at, path, asked: Vec::new() })
            }
            _ => {
                let place = if path.is_empty() { "the file".to_owned() } else { path };
                scribe.wrong(node.at, format!("{place}: expected a table, found {}", node.kind()));
                None
            }
        }
    }

    /// The whole name of something in it.
    pub(crate) fn path(&self, name: &str) -> String {
        let bare = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        let name = if bare { name.to_owned() } else { quoted(name) };
        if self.path.is_empty() { name } else { format!("{}.{name}", self.path) }
    }

    /// What stands at a name, unless it is nothing.
    pub(crate) fn node(&mut self, name: &'static str) -> Option<&'a Node> {
        self.asked.push(name);
        let (_, node) = self.table.iter().find(|(other, _)| other.text == name)?;
        (!matches!(node.value, Value::Nothing)).then_some(node)
    }

    /// Whether a name is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.table.iter().any(|(other, _)| other.text == name)
    }

    /// The value of a name, if it is there and makes sense.
    pub(crate) fn value<T: FromNode>(&mut self, name: &'static str) -> Option<T> {
        let node = self.node(name)?;
        self.convert(name, node)
    }

    /// A node as a value; what is wrong with it is written down under this name.
    pub(crate) fn convert<T: FromNode>(&self, name: &str, node: &Node) -> Option<T> {
        T::from_node(node)
            .map_err(|wrong| {
                self.wrong(name, wrong.at, wrong.message);
            })
            .ok()
    }

    /// The same for a name that may have dots.
    pub(crate) fn convert_in<T: FromNode>(&self, name: &str, node: &Node) -> Option<T> {
        let path =
            if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        self.convert_at(&path, node)
    }

    /// The same for a whole path.
    pub(crate) fn convert_at<T: FromNode>(&self, path: &str, node: &Node) -> Option<T> {
        T::from_node(node).map_err(|wrong| self.wrong_at(path, wrong.at, &wrong.message)).ok()
    }

    /// Writes down what is wrong with something, by its whole path.
    pub(crate) fn wrong_at(&self, path: &str, at: Place, message: &str) {
        self.scribe.wrong(at, format!("{path}: {message}"));
    }

    /// Puts the value of a name where it belongs, if it is there.
    pub(crate) fn put<T: FromNode>(&mut self, name: &'static str, place: &mut T) {
        if let Some(value) = self.value(name) {
            *place = value;
        }
    }

    /// The same where there may be none.
    pub(crate) fn put_some<T: FromNode>(&mut self, name: &'static str, place: &mut Option<T>) {
        if let Some(value) = self.value(name) {
            *place = Some(value);
        }
    }

    /// Puts a section that is one struct where it belongs, if it is there.
    pub(crate) fn put_section<T: DeserializeOwned>(&mut self, name: &'static str, place: &mut T) {
        let Some(node) = self.node(name) else { return };
        match de::from_node(node) {
            Ok(value) => *place = value,
            Err(wrong) => self.wrong(name, wrong.at, wrong.message),
        }
    }

    /// A table in it.
    pub(crate) fn section(&mut self, name: &'static str) -> Option<Section<'a>> {
        let node = self.node(name)?;
        Section::of(node, self.path(name), self.scribe)
    }

    /// A table in it whose names are free: each with its value and the whole name.
    pub(crate) fn entries(&mut self, name: &'static str) -> Vec<(&'a Name, &'a Node)> {
        let Some(section) = self.section(name) else { return Vec::new() };
        section.table.iter().map(|(name, node)| (name, node)).collect()
    }

    /// A list in it; one value alone is a list of one.
    pub(crate) fn list(&mut self, name: &'static str) -> &'a [Node] {
        match self.node(name) {
            None => &[],
            Some(Node { value: Value::List(nodes), .. }) => nodes,
            Some(node) => std::slice::from_ref(node),
        }
    }

    /// A table in a table whose names are free.
    pub(crate) fn inner(&self, node: &'a Node, path: String) -> Option<Section<'a>> {
        Section::of(node, path, self.scribe)
    }

    /// Writes down what is wrong with a name.
    pub(crate) fn wrong(&self, name: &str, at: Place, message: impl AsRef<str>) {
        self.scribe.wrong(at, format!("{}: {}", self.path(name), message.as_ref()));
    }

    /// Writes down what is wrong with the table as a whole.
    pub(crate) fn wrong_here(&self, message: impl AsRef<str>) {
        let message = message.as_ref();
        let path = &self.path;
        let message =
            if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") };
        self.scribe.wrong(self.at, message);
    }

    /// Writes down what may not be as it was meant.
    pub(crate) fn warn(&self, name: &str, at: Place, message: &str) {
        self.scribe.warn(at, format!("{}: {message}", self.path(name)));
    }

    /// Where a name stands.
    pub(crate) fn place(&self, name: &str) -> Place {
        let found = self.table.iter().find(|(other, _)| other.text == name);
        found.map_or(self.at, |(name, _)| name.at)
    }

    /// Where something is written, by its whole path.
    pub(crate) fn location(&self, path: &str, at: Place) -> SourceLocation {
        let Place { line, column } = at;
        SourceLocation { file: Arc::clone(self.scribe.file()), line, column, path: path.into() }
    }

    /// Nothing more is asked for: every other name is unknown.
    pub(crate) fn end(self) {
        for (name, _) in self.table {
            if !self.asked.contains(&&name.text[..]) {
                let hint = match nearest(&name.text, &self.asked) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("known are {}", self.asked.join(", ")),
                };
                self.scribe.wrong(name.at, format!("{}: unknown; {hint}", self.path(&name.text)));
            }
        }
    }
}

/// The name that somebody may have meant.
fn nearest(text: &str, names: &[&'static str]) -> Option<&'static str> {
    let far = |name: &&'static str| (strsim::levenshtein(text, name), *name);
    let (distance, name) = names.iter().map(far).min()?;
    (distance <= 2 && distance < name.len() / 2 + 1).then_some(name)
}
