//! `tollgate hit` and similar commands: one request to a server or directly to a store.

mod report;
mod server;
mod store;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tollgate::shared::without_secrets;

use super::client::{Certificates, Client, Target};
use super::output::say;
use crate::settings::span;
use report::Report;

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Hit,
    Peek,
    Charge,
    Refund,
    Set,
    Reset,
    Usage,
}

impl Asked {
    /// The path on the HTTP port.
    fn path(self) -> &'static str {
        match self {
            Asked::Hit => "/v1/hit",
            Asked::Peek => "/v1/peek",
            Asked::Charge => "/v1/charge",
            Asked::Refund => "/v1/refund",
            Asked::Set => "/v1/set",
            Asked::Reset => "/v1/reset",
            Asked::Usage => "/v1/usage",
        }
    }
}

#[derive(Args, Debug)]
pub(super) struct Ask {
    /// The name of a rule of the server, or a limit as text: 10/second, "100/minute burst=20"
    limit: String,

    /// The key; several make one key of several parts
    #[arg(required = true)]
    key: Vec<String>,

    /// Units [default: 1; set has no default]
    #[arg(long, short)]
    cost: Option<u64>,

    /// The namespace of the rule or the counter
    #[arg(long, default_value = "")]
    namespace: String,

    #[command(flatten)]
    to: To,

    /// Print JSON instead of a line for people
    #[arg(long)]
    json: bool,

    #[arg(skip)]
    refund: RefundBy,
}

/// `tollgate hit` and `tollgate charge`.
#[derive(Args, Debug)]
pub(super) struct Charge {
    #[command(flatten)]
    ask: Ask,

    /// Print the receipts too, on a line for each limit; JSON always has them
    #[arg(long)]
    receipt: bool,
}

/// `tollgate refund`.
#[derive(Args, Debug)]
pub(super) struct Refund {
    #[command(flatten)]
    ask: Ask,

    #[command(flatten)]
    by: RefundBy,
}

/// The receipts of a refund.
#[derive(Args, Debug, Default)]
struct RefundBy {
    /// The receipt of a hit; several may be given. Without one the refund is a correction of --cost
    /// units, as if they were charged now
    #[arg(long, value_name = "RECEIPT", conflicts_with = "cost")]
    receipt: Vec<String>,

    /// The units to give back for each receipt, instead of all that it charged
    #[arg(long, requires = "receipt")]
    units: Option<u64>,
}

/// The server or store that is asked.
#[derive(Args, Debug)]
pub(super) struct To {
    /// The server's HTTP port
    #[arg(
        long,
        value_name = "URL",
        env = "TOLLGATE_SERVER",
        default_value = "http://127.0.0.1:8080"
    )]
    server: String,

    /// The token for the server
    #[arg(long, value_name = "TOKEN", env = "TOLLGATE_TOKEN", hide_env_values = true)]
    token: Option<String>,

    #[command(flatten)]
    certificates: Certificates,

    /// The longest time to wait for the answer: 500ms, 10s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span::parse)]
    timeout: Duration,

    /// Ask this store directly, without a server; the limit must be text
    #[arg(long, value_name = "URL", hide_env_values = true)]
    store: Option<String>,
}

impl To {
    /// The server's HTTP port.
    fn target(&self) -> Target<'_> {
        Target {
            url: &self.server,
            token: self.token.as_deref(),
            certificates: &self.certificates,
            port: "the HTTP port (8080 by default)",
        }
    }
}

impl Ask {
    fn cost(&self) -> u64 {
        self.cost.unwrap_or(1)
    }

    /// Asks, and returns the exit code: 0 allowed, 1 denied.
    pub(super) fn run(&self, asked: Asked) -> Result<ExitCode, Box<dyn Error>> {
        let report = self.report(asked)?;
        let line = if self.json { report.json() } else { report.to_string() };
        self.print(&report, line)
    }

    fn print(&self, report: &Report, text: String) -> Result<ExitCode, Box<dyn Error>> {
        say(&(text + "\n"))?;
        Ok(if report.passes() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn report(&self, asked: Asked) -> Result<Report, Box<dyn Error>> {
        if asked == Asked::Set && self.cost.is_none() {
            return Err("set: --cost is missing: how many units are in use from now on".into());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let To { server, store, timeout, .. } = &self.to;
        let report = async {
            match store {
                Some(url) => store::ask(url, asked, self).await,
                None => server::ask(asked, self).await,
            }
        };
        let report = runtime.block_on(async { tokio::time::timeout(*timeout, report).await });
        report.map_err(|_| match store {
            Some(url) => format!("store {:?}: no answer within {timeout:?}", without_secrets(url)),
            None => format!("server {server:?}: no answer within {timeout:?}"),
        })?
    }
}

impl Charge {
    /// Asks and prints the receipts. The exit code is that of [`Ask::run`].
    pub(super) fn run(&self, asked: Asked) -> Result<ExitCode, Box<dyn Error>> {
        if !self.receipt || self.ask.json {
            return self.ask.run(asked);
        }
        let report = self.ask.report(asked)?;
        let receipts = report.receipts().map(|receipt| format!("\nreceipt {receipt}"));
        let text = report.to_string() + &receipts.collect::<String>();
        self.ask.print(&report, text)
    }
}

impl Refund {
    pub(super) fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        Ask { refund: self.by, ..self.ask }.run(Asked::Refund)
    }
}
