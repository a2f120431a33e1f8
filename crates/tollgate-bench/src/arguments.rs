//! The command line.

use crate::{KEYS, Outcome, Size, child, instructions};
use std::path::{Path, PathBuf};

pub(crate) const HELP: &str = "\
tollgate-bench memory [--quick] [--rounds N] [--out DIR]
    speed, memory, cleaning and tails beside the peers; writes memory.md and memory.svg
    --quick     fewer rounds
    --rounds N  turns of each contender (7, with --quick 3)
    --out DIR   where to write (bench/results of the workspace)
tollgate-bench instructions
    instructions of one hit, counted by valgrind
";

/// With more the most frequent key would use up its burst, see [`crate::contenders::LIVE`].
const MOST_ROUNDS: usize = 9;

/// What to do.
pub(crate) enum Command {
    Memory {
        size: Size,
        out: PathBuf,
    },
    Instructions,
    /// For the program itself.
    Child(Vec<String>),
    /// For the program itself, under valgrind.
    Count(Vec<String>),
    Help,
}

pub(crate) fn parse(arguments: &[String]) -> Outcome<Command> {
    let (command, rest) = match arguments {
        [] => return Ok(Command::Help),
        [command, rest @ ..] => (command.as_str(), rest),
    };
    match command {
        "memory" => memory(rest),
        "instructions" if rest.is_empty() => Ok(Command::Instructions),
        "instructions" => {
            Err(format!("instructions `{}`: takes no options", rest.join(" ")).into())
        }
        child::COMMAND => Ok(Command::Child(rest.to_vec())),
        instructions::COMMAND => Ok(Command::Count(rest.to_vec())),
        "help" | "--help" | "-h" => Ok(Command::Help),
        other => Err(format!("command `{other}`: must be memory, instructions or help").into()),
    }
}

fn memory(options: &[String]) -> Outcome<Command> {
    let mut quick = false;
    let mut rounds = None;
    let mut out = workspace().join("bench/results");
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "--quick" => quick = true,
            "--rounds" => rounds = Some(whole("--rounds", options.next())?),
            "--out" => out = options.next().ok_or("--out: needs a directory")?.into(),
            other => {
                let rule = "must be --quick, --rounds N or --out DIR";
                return Err(format!("option `{other}`: {rule}").into());
            }
        }
    }
    let size = Size {
        keys: KEYS,
        hot_hits: 2_000_000,
        rounds: rounds.unwrap_or(if quick { 3 } else { 7 }),
        repeats: if quick { 1 } else { 3 },
    };
    Ok(Command::Memory { size, out })
}

fn whole(option: &str, value: Option<&String>) -> Outcome<usize> {
    let value = value.map_or("", String::as_str);
    let number = value.parse().ok().filter(|number| (1..=MOST_ROUNDS).contains(number));
    Ok(number.ok_or_else(|| {
        format!("{option} `{value}`: must be a whole number from 1 to {MOST_ROUNDS}")
    })?)
}

/// The root of the workspace.
pub(crate) fn workspace() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Outcome<Command> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn quick_means_fewer_rounds_unless_told() {
        for (line, expected) in
            [("memory", 7), ("memory --quick", 3), ("memory --quick --rounds 5", 5)]
        {
            let Ok(Command::Memory { size, .. }) = parsed(line) else { panic!("{line}") };
            assert_eq!(size.rounds, expected, "{line}");
        }
    }

    #[test]
    fn errors_name_value_and_rule() {
        for (line, message) in [
            ("fly", "command `fly`: must be memory, instructions or help"),
            ("memory --slow", "option `--slow`: must be --quick, --rounds N or --out DIR"),
            ("memory --rounds 0", "--rounds `0`: must be a whole number from 1 to 9"),
            ("memory --rounds", "--rounds ``: must be a whole number from 1 to 9"),
            ("memory --out", "--out: needs a directory"),
            ("instructions now", "instructions `now`: takes no options"),
        ] {
            assert_eq!(parsed(line).err().unwrap().to_string(), message);
        }
    }
}
