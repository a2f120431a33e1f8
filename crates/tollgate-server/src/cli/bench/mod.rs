//! `tollgate bench`: loads a server and reports how it answered.

mod failure;
mod grpc;
mod load;
mod tally;
mod text;
mod wire;

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

#[derive(Args, Clone, Debug)]
pub(super) struct Bench {
    /// The protocol; grpc is Envoy's rate limit service
    #[arg(long, value_enum, default_value_t = Protocol::Resp)]
    protocol: Protocol,

    /// The address of the server [default: 127.0.0.1:6380 for resp, 127.0.0.1:8080 for http,
    /// 127.0.0.1:8081 for grpc]
    #[arg(long, value_name = "ADDR")]
    address: Option<SocketAddr>,

    /// The token for the server
    #[arg(long, value_name = "TOKEN", env = "TOLLGATE_TOKEN", hide_env_values = true)]
    token: Option<String>,

    /// The name of a rule, or a limit as text; for grpc the key of a descriptor, or a limit as a
    /// count per second, minute, hour, day or week, which is sent with each request
    #[arg(long, default_value = "1000000/second")]
    limit: String,

    /// The domain of the requests; only for grpc
    #[arg(long, value_name = "NAME", default_value = "bench")]
    domain: String,

    /// The number of different keys, chosen at random
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,

    /// The number of connections
    #[arg(long, short, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,

    /// Questions that a connection sends before it waits for their answers; HTTP takes one
    #[arg(long, short = 'P', default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pipeline: u16,

    /// The duration in seconds
    #[arg(long, short, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Print no progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    Resp,
    Http,
    Grpc,
}

impl Bench {
    /// Runs the load. Returns an error if a request failed or none was answered.
    pub(super) fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let span = Duration::from_secs(self.seconds);
        let tally = runtime.block_on(load::run(self, span))?;
        if self.json {
            println!("{}", tally.json());
        } else {
            print!("{tally}");
        }
        match (tally.errors(), tally.requests()) {
            (_, 0) => Err("no request was sent".into()),
            (0, _) => Ok(ExitCode::SUCCESS),
            (errors, requests) => Err(format!("{errors} of {requests} requests failed").into()),
        }
    }

    fn address(&self) -> SocketAddr {
        let port = match self.protocol {
            Protocol::Resp => 6380,
            Protocol::Http => 8080,
            Protocol::Grpc => 8081,
        };
        self.address.unwrap_or_else(|| ([127, 0, 0, 1], port).into())
    }

    /// The number of requests that a connection sends before it waits for their responses.
    fn depth(&self) -> u16 {
        if self.protocol == Protocol::Http { 1 } else { self.pipeline }
    }
}
