//! The command line.

mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Exit code of a command that ended with an error; 1 is a denial.
const ERROR: u8 = 2;

#[derive(Debug, Parser)]
#[command(name = "tollgate", version, about = "Rate limiting for every language and proxy")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the server. What `tollgate` does without a command.
    Serve(serve::Serve),
}

/// Runs the command that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let command = arguments.command.unwrap_or(Command::Serve(serve::Serve::default()));
    let result = match command {
        Command::Serve(serve) => serve.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tollgate: {error}");
            ExitCode::from(ERROR)
        }
    }
}
