//! `tollgate durable`: checks and repairs files of the durable store.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use tollgate_durable::{FileReport, RepairReport, check_file, repair_file};

use super::output::say;

#[derive(Args, Debug)]
pub(super) struct Durable {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a file that no server uses, without changing it. Exits with 0 if it is intact, 1 if
    /// it is damaged, 2 if it cannot be checked
    Check {
        /// The file of the durable store: the path in its URL
        file: PathBuf,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy every readable record into a new file; the old file stays as it is. Exits with 0 if
    /// no record was lost, 1 if records were lost or their number is unknown, 2 on an error
    Repair {
        /// The file of the durable store: the path in its URL
        file: PathBuf,

        /// The new file, which must not exist yet [default: FILE.repaired]
        #[arg(long, value_name = "NEW")]
        to: Option<PathBuf>,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Durable {
    pub(super) fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        match &self.command {
            Command::Check { file, json } => {
                let report = check_file(file)?;
                let text = if *json { check_json(&report) } else { check_text(file, &report) };
                say(&text)?;
                Ok(exit_code(report.is_intact()))
            }
            Command::Repair { file, to, json } => {
                let new = to.clone().unwrap_or_else(|| {
                    let mut name = file.clone().into_os_string();
                    name.push(".repaired");
                    name.into()
                });
                let report = repair_file(file, &new)?;
                let text =
                    if *json { repair_json(&new, &report) } else { repair_text(&new, &report) };
                say(&text)?;
                Ok(exit_code(report.lost() == Some(0)))
            }
        }
    }
}

fn exit_code(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check_text(file: &Path, report: &FileReport) -> String {
    let state = if report.is_intact() { "intact" } else { "damaged" };
    let closed = match report.closed {
        true => "the last server that used it closed it",
        false => "it was not closed: the next start recovers its last commit",
    };
    let FileReport { bytes, keys, expired, .. } = report;
    let mut lines = vec![
        format!("{}: {state}", file.display()),
        format!("  {bytes} bytes, {}; {closed}", format_name(report.format)),
        format!("  {keys} keys, {expired} of them expired"),
    ];
    lines.extend(report.limits.iter().map(|limit| {
        let namespace = match &limit.namespace[..] {
            "" => String::new(),
            namespace => format!(" in namespace {namespace:?}"),
        };
        format!("  {}{namespace}: {} keys", limit.identity, limit.keys)
    }));
    lines.extend(report.damage.iter().map(|damage| format!("  damage: {damage}")));
    lines.join("\n") + "\n"
}

fn format_name(format: Option<u64>) -> String {
    format.map_or("unknown format".to_owned(), |format| format!("format {format}"))
}

fn check_json(report: &FileReport) -> String {
    let limits: Vec<_> = report
        .limits
        .iter()
        .map(|limit| {
            json!({"namespace": limit.namespace, "identity": limit.identity, "keys": limit.keys})
        })
        .collect();
    let object = json!({
        "intact": report.is_intact(),
        "bytes": report.bytes,
        "format": report.format,
        "closed": report.closed,
        "keys": report.keys,
        "expired": report.expired,
        "limits": limits,
        "damage": report.damage,
    });
    format!("{object}\n")
}

fn repair_text(new: &Path, report: &RepairReport) -> String {
    let RepairReport { keys, limits, expired, without_limit, .. } = report;
    let mut lines = vec![
        format!("{}: {keys} keys of {limits} limits saved", new.display()),
        match report.lost() {
            Some(0) => "  no record was lost".to_owned(),
            Some(lost) => format!("  at least {lost} records were lost"),
            None => "  how many records were lost is unknown".to_owned(),
        },
    ];
    if *expired > 0 {
        lines.push(format!("  {expired} expired records were left out"));
    }
    if *without_limit > 0 {
        lines.push(format!("  {without_limit} records belong to limits that are lost"));
    }
    lines.extend(report.damage.iter().map(|damage| format!("  damage of the old file: {damage}")));
    lines.join("\n") + "\n"
}

fn repair_json(new: &Path, report: &RepairReport) -> String {
    let object = json!({
        "file": new.display().to_string(),
        "keys": report.keys,
        "limits": report.limits,
        "expired": report.expired,
        "without_limit": report.without_limit,
        "lost": report.lost(),
        "damage": report.damage,
    });
    format!("{object}\n")
}
