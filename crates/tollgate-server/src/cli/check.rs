//! `tollgate check`.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use tollgate::shared::SharedStore as _;

use super::ERROR;
use super::output::{complain, say};
use super::serve::{LEAVE, Reading, opening};
use crate::config::{Config, Files, Problem, Problems};
use crate::net::Expiry;
use crate::observe::Protocol;
use crate::rules::Row;
use crate::seconds::unix_now;
use crate::service::{Defaults, Service};
use crate::settings::Settings;

#[derive(Args, Debug)]
pub(super) struct Check {
    /// Configuration files, or directories of rules
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Print JSON: one object for all files
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    reading: Reading,
}

/// The result for one file.
#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    ok: bool,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    rules: Vec<Row>,
}

impl Check {
    pub(super) fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let checked: Vec<_> = self
            .files
            .iter()
            .map(|file| runtime.block_on(checked(&self.reading.files(file))))
            .collect();
        if self.json {
            say(&(serde_json::to_string_pretty(&checked)? + "\n"))?;
        } else {
            checked.iter().try_for_each(Checked::print)?;
        }
        let good = checked.iter().all(|checked| checked.ok);
        Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(ERROR) })
    }
}

/// Does all that the server does before it listens, except that it does not ask the store.
async fn checked(files: &Files) -> Checked {
    let file = files.path.display().to_string();
    let found = match files.load() {
        Ok(config) => put_on_store(&file, &config).await.map(|()| config),
        Err(problems) => Err(problems),
    };
    match found {
        Ok(Config { settings, rules, mut warnings, .. }) => {
            warnings.extend(certificate_warnings(&settings));
            Checked { file, ok: true, problems: Vec::new(), warnings, rules: rules.rows() }
        }
        Err(Problems(problems)) => {
            Checked { file, ok: false, problems, warnings: Vec::new(), rules: Vec::new() }
        }
    }
}

/// Certificates that expire soon or cannot be read: one warning for each file.
fn certificate_warnings(settings: &Settings) -> Vec<Problem> {
    let open = Protocol::ALL.into_iter().filter(|port| settings.address(*port).is_some());
    let files: BTreeSet<_> = open.filter_map(|port| settings.tls.certificate(port)).collect();
    let warning = |path: &Path| match Expiry::read(path) {
        Ok(expiry) => {
            let message = expiry.warning(unix_now())?;
            let file = path.display().to_string();
            Some(Problem { file, line: 0, column: 0, message })
        }
        // The error names the file.
        Err(message) => Some(Problem { file: String::new(), line: 0, column: 0, message }),
    };
    files.into_iter().filter_map(warning).collect()
}

async fn put_on_store(file: &str, config: &Config) -> Result<(), Problems> {
    let Config { settings, rules, .. } = config;
    let wrong = |message: String| {
        Problems(vec![Problem { file: file.to_owned(), line: 0, column: 0, message }])
    };
    let store = opening(&settings.store).open().await.map_err(|error| wrong(error.to_string()))?;
    let result = Service::new(store.clone(), Defaults::from(&settings.store), rules).map(drop);
    // Replicas that have met this process would report it as missing.
    let _ = tokio::time::timeout(LEAVE, store.leave()).await;
    result
}

impl Checked {
    fn print(&self) -> Result<(), String> {
        for problem in &self.problems {
            complain(&problem.to_string());
        }
        for warning in &self.warnings {
            complain(&format!("{warning} (a warning)"));
        }
        if !self.ok {
            complain(&format!("{}: not good", self.file));
            return Ok(());
        }
        let many = if self.rules.len() == 1 { "" } else { "s" };
        let (count, table) = (self.rules.len(), table(&self.rules));
        say(&format!("{}: good, {count} rule{many}\n{table}", self.file))
    }
}

/// Formats rows with columns as wide as needed.
fn table(rows: &[Row]) -> String {
    let name = |row: &Row| match (&row.namespace[..], &row.domain[..]) {
        ("", "") => row.name.clone(),
        (namespace, "") => format!("{namespace} {}", row.name),
        (_, domain) if row.name == row.descriptor => format!("{domain} {}", row.descriptor),
        (_, domain) => format!("{domain} {} ({})", row.descriptor, row.name),
    };
    let lines: Vec<_> =
        rows.iter().map(|row| (name(row), &row.limit, row.options.join(", "))).collect();
    let width = |text: &dyn Fn(usize) -> usize| (0..lines.len()).map(text).max().unwrap_or(0);
    let names = width(&|line| lines[line].0.chars().count());
    let limits = width(&|line| lines[line].1.chars().count());
    let line = |(name, limit, options): &(String, &String, String)| {
        format!("  {name:<names$}  {limit:<limits$}  {options}").trim_end().to_owned() + "\n"
    };
    lines.iter().map(line).collect()
}
