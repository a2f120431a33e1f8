//! `tollgate bench`: loads a server and says what it did.

mod load;
mod tally;
mod wire;

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

#[derive(Args, Clone, Debug)]
pub(super) struct Bench {
    /// How to talk to the server
    #[arg(long, value_enum, default_value_t = Speaks::Resp)]
    protocol: Speaks,

    /// Where it listens [default: 127.0.0.1:6380 for resp, 127.0.0.1:8080 for http]
    #[arg(long, value_name = "ADDR")]
    address: Option<SocketAddr>,

    /// The token that the server wants
    #[arg(long, value_name = "TOKEN", env = "TOLLGATE_TOKEN", hide_env_values = true)]
    token: Option<String>,

    /// The name of a rule, or a limit as text
    #[arg(long, default_value = "1000000/second")]
    limit: String,

    /// How many different keys, taken at random
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,

    /// Connections at once
    #[arg(long, short, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,

    /// Questions sent before the first answer is waited for; HTTP takes one
    #[arg(long, short = 'P', default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pipeline: u16,

    /// For how long, in seconds
    #[arg(long, short, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Speaks {
    Resp,
    Http,
}

impl Bench {
    /// Loads. It is an error if nothing was answered, or something with an error.
    pub(super) fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let span = Duration::from_secs(self.seconds);
        let tally = runtime.block_on(load::run(self, span))?;
        if self.json {
            println!("{}", tally.json());
        } else {
            print!("{tally}");
        }
        match tally.errors() {
            0 => Ok(ExitCode::SUCCESS),
            errors => Err(format!("{errors} of the answers were errors").into()),
        }
    }

    fn address(&self) -> SocketAddr {
        let port = match self.protocol {
            Speaks::Resp => 6380,
            Speaks::Http => 8080,
        };
        self.address.unwrap_or_else(|| ([127, 0, 0, 1], port).into())
    }
}
