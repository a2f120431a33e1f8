//! The command line.

mod greeting;
mod serve;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Exit code of a command that ended with an error; 1 is a denial.
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
    /// Start the server. What `tollgate` does without a command.
    Serve(serve::Serve),
}

/// Runs the command that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse_from(with_a_command(std::env::args_os().collect()));
    let result = match arguments.command {
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

/// Arguments in which nobody names a command are those of `serve`.
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
