//! Reads the configuration file (TOML or YAML) into [`Settings`] and a [`RuleSet`].
//!
//! ```text
//! text ──▶ toml_tree | yaml_tree ──▶ tree (every part knows its place) ──▶ sections ──▶ Config, or all that is wrong with it
//! ```
//!
//! A section of settings is one struct that serde reads (`section.rs`). Sections of rules are read
//! by hand, because an error in a limit must name its line and column.

mod de;
mod domain;
mod problem;
mod rule;
mod section;
mod settings;
mod sources;
mod toml_tree;
mod tree;
mod value;
mod yaml_tree;

pub use problem::{Problem, Problems};

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::rules::RuleSet;
use crate::settings::Settings;
use domain::DomainSection;
use problem::{Diagnostics, TextPosition};
use section::Section;
use tree::Node;

/// The content of a configuration file and of the files that it includes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Everything that is not a rule.
    pub settings: Settings,
    /// The rules.
    pub rules: RuleSet,
    /// Settings that are valid but probably not meant.
    pub warnings: Vec<Problem>,
    /// All files and directories that were read.
    pub sources: Vec<PathBuf>,
}

/// The place of a configuration: a file and its includes, or a directory in which every file holds
/// rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The file, or the directory.
    pub path: PathBuf,
    /// Lets several files define the same domain, whatever the file says. A directory has no main
    /// file that could say so.
    pub merge_domains: bool,
}

impl Files {
    /// The configuration at this path.
    ///
    /// ```
    /// let files = tollgate_server::config::Files::at("/etc/tollgate/tollgate.toml");
    /// assert!(!files.merge_domains);
    /// ```
    pub fn at(path: impl Into<PathBuf>) -> Files {
        Files { path: path.into(), merge_domains: false }
    }

    /// Reads the files.
    ///
    /// # Errors
    /// All mistakes, each with file and line.
    pub fn load(&self) -> Result<Config, Problems> {
        let mut reading = Reading { merge_domains: self.merge_domains, ..Reading::default() };
        if self.path.is_dir() {
            reading.directory(&self.path);
        } else {
            reading.main_file(&self.path);
        }
        reading.end()
    }
}

/// Reads the text of a file. The format follows from the name. The text cannot include other files.
///
/// ```
/// let config = tollgate_server::config::read("[limits]\nlogin = '5/minute'", "tollgate.toml")?;
/// assert_eq!(config.rules.limits.len(), 1);
/// # Ok::<(), tollgate_server::config::Problems>(())
/// ```
///
/// # Errors
/// All mistakes, each with its line.
pub fn read(text: &str, name: &str) -> Result<Config, Problems> {
    let mut reading = Reading::default();
    reading.main_text(text, &Arc::from(name), None);
    reading.end()
}

/// The file and the place where a rule or a domain is defined first.
type DefinedAt = (Arc<str>, TextPosition);

/// The state while files are read.
#[derive(Debug, Default)]
struct Reading {
    config: Config,
    problems: Vec<Problem>,
    limits: BTreeMap<(String, String), DefinedAt>,
    domains: BTreeMap<String, DefinedAt>,
    merge_domains: bool,
}

impl Reading {
    fn end(self) -> Result<Config, Problems> {
        if self.problems.is_empty() { Ok(self.config) } else { Err(Problems(self.problems)) }
    }

    fn main_file(&mut self, path: &Path) {
        self.config.sources.push(path.to_owned());
        let file: Arc<str> = path.display().to_string().into();
        match std::fs::read_to_string(path) {
            Ok(text) => self.main_text(&text, &file, Some(path)),
            Err(error) => self.problems.push(Problem::of_file(&file, error.to_string())),
        }
    }

    /// Reads the main file: settings, rules and includes.
    fn main_text(&mut self, text: &str, file: &Arc<str>, path: Option<&Path>) {
        let mut includes = Vec::new();
        self.parsed(text, file, |reading, diagnostics, mut root| {
            let settings = &mut reading.config.settings;
            settings_of(&mut root, settings);
            reading.merge_domains |= root.value("merge_domains").unwrap_or(false);
            for node in root.list("include") {
                if let Some(pattern) = root.convert::<String>("include", node) {
                    includes.push((pattern, node.at));
                }
            }
            reading.rules(&mut root, diagnostics);
            root.end();
        });
        for (pattern, at) in includes {
            self.include(&pattern, file, at, path);
        }
    }

    /// Reads a file of rules, in our form or in that of Envoy's server.
    fn rule_file(&mut self, path: &Path) {
        self.config.sources.push(path.to_owned());
        let file: Arc<str> = path.display().to_string().into();
        match std::fs::read_to_string(path) {
            Ok(text) => self.parsed(&text, &file, |reading, diagnostics, mut root| {
                reading.rules(&mut root, diagnostics);
                root.end();
            }),
            Err(error) => self.problems.push(Problem::of_file(&file, error.to_string())),
        }
    }

    /// Parses a text, passes the tree to `read`, then collects the problems.
    fn parsed(
        &mut self,
        text: &str,
        file: &Arc<str>,
        read: impl FnOnce(&mut Reading, &Diagnostics, Section<'_>),
    ) {
        let diagnostics = Diagnostics::new(file);
        if let Some(tree) = tree(text, file, &diagnostics) {
            match envoy_root(&tree) {
                true => self.envoy(&tree, &diagnostics),
                false => {
                    if let Some(root) = Section::of(&tree, String::new(), &diagnostics) {
                        read(self, &diagnostics, root);
                    }
                }
            }
        }
        let (problems, warnings) = diagnostics.into_parts();
        self.problems.extend(problems);
        self.config.warnings.extend(warnings);
    }

    /// Reads `domain:` and `descriptors:` as Envoy's server has them.
    fn envoy(&mut self, tree: &Node, diagnostics: &Diagnostics) {
        let Some(mut root) = Section::of(tree, String::new(), diagnostics) else { return };
        let at = root.place("domain");
        let name: String = root.value("domain").unwrap_or_default();
        if name.is_empty() {
            root.wrong("domain", at, "must not be empty");
        }
        let descriptors = domain::read(&mut root);
        root.end();
        self.domain(DomainSection { name, descriptors, at }, diagnostics);
    }

    /// Reads `[limits]`, `[namespaces]` and `[domains]`.
    fn rules(&mut self, root: &mut Section<'_>, diagnostics: &Diagnostics) {
        self.limits(root, "", diagnostics);
        for (name, node) in root.entries("namespaces") {
            let path = format!("namespaces.{}", name.text);
            if name.text.is_empty()
                || name.text.starts_with('~')
                || name.text.starts_with("domain:")
            {
                let message = "a namespace is not empty and begins neither with ~ nor with domain:";
                root.wrong_at(&path, name.at, message);
            }
            if let Some(mut section) = root.inner(node, path) {
                self.limits(&mut section, &name.text, diagnostics);
                section.end();
            }
        }
        for (name, node) in root.entries("domains") {
            let path = format!("domains.{}", name.text);
            let Some(mut section) = root.inner(node, path) else { continue };
            let descriptors = domain::read(&mut section);
            section.end();
            let (name, at) = (name.text.clone(), name.at);
            self.domain(DomainSection { name, descriptors, at }, diagnostics);
        }
    }

    fn limits(&mut self, section: &mut Section<'_>, namespace: &str, diagnostics: &Diagnostics) {
        let above = section.path("limits");
        for (name, node) in section.entries("limits") {
            let path = format!("{above}.{}", name.text);
            let key = (namespace.to_owned(), name.text.clone());
            let defined_at = (Arc::clone(diagnostics.file()), name.at);
            if let Some((file, at)) = self.limits.insert(key.clone(), defined_at) {
                let message = format!("written twice, first in {file}:{}", at.line);
                section.wrong_at(&path, name.at, &message);
            }
            if name.text.is_empty() {
                section.wrong_at(&above, name.at, "a limit needs a name that is not empty");
            } else if let Some(rule) = rule::read(section, &path, &name.text, node) {
                self.config.rules.limits.insert(key, rule);
            }
        }
    }

    fn domain(&mut self, section: DomainSection, diagnostics: &Diagnostics) {
        let DomainSection { name, descriptors, at } = section;
        let before = self.config.rules.domains.get(&name);
        if let (Some((file, first)), false) = (self.domains.get(&name), self.merge_domains) {
            let message = format!(
                "domain {name:?}: written twice, first in {file}:{}; merge_domains = true or --merge-domains allows it",
                first.line
            );
            diagnostics.wrong(at, message);
        }
        let before: HashSet<_> =
            before.into_iter().flatten().map(|node| (&node.key, &node.value)).collect();
        for node in descriptors.iter().filter(|node| before.contains(&(&node.key, &node.value))) {
            let value = node.value.as_ref().map_or("", |value| value.text());
            let message =
                format!("domain {name:?}: {}={value:?} is in another file already", node.key);
            diagnostics.wrong(at, message);
        }
        self.domains.entry(name.clone()).or_insert((Arc::clone(diagnostics.file()), at));
        self.config.rules.domains.entry(name).or_default().extend(descriptors);
    }
}

/// Reads the settings. A new section is a struct with serde and a line here.
fn settings_of(root: &mut Section<'_>, all: &mut Settings) {
    if let Some(section) = root.section("server") {
        settings::server(section, all);
    }
    if let Some(section) = root.section("store") {
        settings::store(section, &mut all.store);
    }
    if let Some(section) = root.section("envoy") {
        settings::envoy(section, &mut all.envoy);
    }
    root.put_section("tls", &mut all.tls);
    root.put_section("auth", &mut all.auth);
    root.put_section("connections", &mut all.connections);
    root.put_section("log", &mut all.log);
    root.put_section("traces", &mut all.traces);
}

/// Whether this is a file for Envoy's server.
fn envoy_root(tree: &Node) -> bool {
    match &tree.value {
        tree::Value::Table(table) => {
            tree::find(table, "domain").is_some() || tree::find(table, "descriptors").is_some()
        }
        _ => false,
    }
}

fn tree(text: &str, file: &str, diagnostics: &Diagnostics) -> Option<Node> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match sources::extension(file) {
        "toml" => toml_tree::tree(text, diagnostics),
        "yaml" | "yml" | "json" => yaml_tree::tree(text, diagnostics),
        other => {
            let message =
                format!("a name that ends in {other:?}: expected .toml, .yaml, .yml or .json");
            diagnostics.wrong(TextPosition::default(), message);
            None
        }
    }
}

#[cfg(test)]
mod tests;
