//! `tollgate top`: the rules and keys of a running server with the most hits or denials.
//!
//! ```text
//! admin port ──▶ feed: JSON ──▶ figures: rows with rates ──▶ page: lines of text ──▶ terminal
//! ```

mod feed;
mod figures;
mod live;
mod page;
mod table;
mod terminal;

use std::error::Error;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::client::{Certificates, Target};
use super::output::say;
use crate::settings::span;
use feed::{Feed, Sample};
use figures::{Figures, Sort};

#[derive(Args, Debug)]
pub(super) struct Top {
    /// The server's admin port
    #[arg(
        long,
        value_name = "URL",
        env = "TOLLGATE_ADMIN_URL",
        default_value = "http://127.0.0.1:8082"
    )]
    server: String,

    /// The token for the admin port; the scope read is enough
    #[arg(long, value_name = "TOKEN", env = "TOLLGATE_ADMIN_TOKEN", hide_env_values = true)]
    token: Option<String>,

    #[command(flatten)]
    certificates: Certificates,

    /// The longest time to wait for an answer: 500ms, 10s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span::parse)]
    timeout: Duration,

    /// The order of rules and keys, the largest first
    #[arg(long, value_enum, default_value_t = Sort::Hits)]
    sort: Sort,

    /// The most keys to ask for, from 1 to 1000, by hits and by denials
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    max_keys: u16,

    /// Print a table and exit. It takes up to two seconds, because rates need two samples
    #[arg(long)]
    once: bool,

    /// Print one JSON object with the answers of the API (overview, rules, keys) and exit
    #[arg(long)]
    json: bool,
}

impl Top {
    pub(super) fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        if self.json {
            let sample = runtime.block_on(async { self.feed().await?.next().await })?;
            say(&format!("{}\n", sample.json()))?;
        } else if self.once {
            let figures = runtime.block_on(self.two_samples())?;
            say(&page::plain(&figures, self.sort))?;
        } else if std::io::stdout().is_terminal() {
            return runtime.block_on(live::run(self));
        } else {
            return Err("standard output is no terminal; --once prints a table, --json JSON".into());
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn feed(&self) -> Result<Feed, feed::Failure> {
        let target = Target {
            url: &self.server,
            token: self.token.as_deref(),
            certificates: &self.certificates,
            port: "the admin port (8082 by default)",
        };
        Feed::open(target, self.max_keys, self.timeout).await
    }

    /// The figures of a whole second.
    async fn two_samples(&self) -> Result<Figures, Box<dyn Error>> {
        let mut feed = self.feed().await?;
        // The first event comes immediately, the second at the end of the second that runs.
        feed.next().await?;
        let before = feed.next().await?;
        let after = feed.next().await?;
        Ok(Figures::new(&after, Some(&Figures::new(&before, None)?))?)
    }
}
