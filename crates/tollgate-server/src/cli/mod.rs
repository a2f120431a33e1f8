//! The command line.

mod ask;
mod bench;
mod certificates;
mod check;
mod client;
#[cfg(feature = "durable")]
mod durable;
mod files;
mod greeting;
mod limits;
mod node;
mod output;
mod ports;
mod progress;
mod replay;
mod serve;
mod shell;
mod simulate;
mod stop;
mod supervisor;
mod token;
mod top;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use ask::Asked;

/// Exit code of a command that failed. 1 is a denial.
const ERROR: u8 = 2;

#[derive(Debug, Parser)]
#[command(
    name = "tollgate",
    version,
    about = "Rate limiting for every language and proxy",
    after_help = "Without a command it serves: `tollgate --config FILE` is `tollgate serve --config FILE`."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the server. This is the default without a command.
    Serve(Box<serve::Serve>),
    /// Decide and charge. Exits with 0 if it is allowed, 1 if it is denied, 2 on an error
    Hit(ask::Charge),
    /// Ask whether a hit would pass, without charging
    Peek(ask::Ask),
    /// Charge without checking the limit
    Charge(ask::Charge),
    /// Give units back: by --receipt those of a hit, else as a correction
    Refund(ask::Refund),
    /// Set the units in use of a key to --cost, which is required
    Set(ask::Ask),
    /// Forget a key
    Reset(ask::Ask),
    /// Print the units in use of a key
    Usage(ask::Ask),
    /// Check configuration files as the server would. Exits with 0 if they are good, 2 if not
    Check(check::Check),
    /// Check or repair a file of the durable store
    #[cfg(feature = "durable")]
    Durable(durable::Durable),
    /// Explain limits in words: what they admit, and at most
    Limits(limits::Limits),
    /// Replay access logs to find which clients a limit would have denied
    Replay(Box<replay::ReplayCommand>),
    /// What would a limit do to this traffic? Runs limits against generated requests
    Simulate(Box<simulate::SimulateCommand>),
    /// Load a server and report how it answered
    Bench(bench::Bench),
    /// Show the rules and keys of a running server with the most hits or denials, live
    Top(Box<top::Top>),
    /// Print completions for a shell
    Completions(shell::Completions),
    /// Print the manual page
    Man(shell::Man),
    /// Create a token and its hash for the configuration
    Token(token::Token),
}

/// Runs the command that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse_from(with_a_command(std::env::args_os().collect()));
    let result = match arguments.command {
        Command::Serve(serve) => serve.run(),
        Command::Hit(ask) => ask.run(Asked::Hit),
        Command::Peek(ask) => ask.run(Asked::Peek),
        Command::Charge(ask) => ask.run(Asked::Charge),
        Command::Refund(refund) => refund.run(),
        Command::Set(ask) => ask.run(Asked::Set),
        Command::Reset(ask) => ask.run(Asked::Reset),
        Command::Usage(ask) => ask.run(Asked::Usage),
        Command::Check(check) => check.run(),
        #[cfg(feature = "durable")]
        Command::Durable(durable) => durable.run(),
        Command::Limits(limits) => limits.run(),
        Command::Replay(replay) => replay.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Bench(bench) => bench.run(),
        Command::Top(top) => top.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
        Command::Token(token) => token.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            output::complain(&format!("tollgate: {error}"));
            ExitCode::from(ERROR)
        }
    }
}

/// Without a command, the arguments are those of `serve`.
fn with_a_command(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let serves = match arguments.get(1).and_then(|first| OsStr::to_str(first)) {
        None => arguments.len() < 2,
        Some("-h" | "--help" | "-V" | "--version") => false,
        Some(first) => first.starts_with('-'),
    };
    if serves {
        arguments.insert(1, "serve".into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_command_it_serves() {
        let with = |arguments: &[&str]| {
            let arguments = arguments.iter().map(Into::into).collect();
            with_a_command(arguments).join(OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(with(&["tollgate"]), "tollgate serve");
        assert_eq!(with(&["tollgate", "--http", "off"]), "tollgate serve --http off");
        assert_eq!(with(&["tollgate", "--help"]), "tollgate --help");
        assert_eq!(with(&["tollgate", "hit", "-c"]), "tollgate hit -c");
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }
}
