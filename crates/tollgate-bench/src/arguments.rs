//! The command line.

use crate::{KEYS, Outcome, Size, child, http, instructions, redis, server, stores};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const HELP: &str = "\
tollgate-bench memory [--quick] [--rounds N] [--out DIR]
    speed, memory, cleaning and tails beside the peers; writes memory.md and memory.svg
    --quick     fewer rounds
    --rounds N  turns of each contender (7, with --quick 3)
    --out DIR   where to write (bench/results of the workspace)
tollgate-bench redis [--quick] [--rounds N] [--seconds S] [--only NAME,NAME] [--out DIR]
    on a redis-server of its own beside redis-benchmark, INCR + PEXPIRE and Python limits;
    writes redis.md and redis.svg
    --quick      fewer rounds
    --rounds N   turns of each contender (15, with --quick 5)
    --seconds S  length of one turn (0.3)
    --only NAMES only these contenders, and nothing is written: for a profiler
    --out DIR    where to write (bench/results of the workspace)
tollgate-bench http [--quick] [--rounds N] [--seconds S] [--out DIR]
    an axum server without a limiter, with tollgate-tower and with tower_governor, asked by wrk;
    writes http.md
    --quick      fewer rounds
    --rounds N   turns of each contender (9, with --quick 3)
    --seconds S  length of one turn (1)
    --out DIR    where to write (bench/results of the workspace)
tollgate-bench server [--quick] [--rounds N] [--seconds S] [--out DIR]
    the server tollgate beside throttlecrab-server and Redis, asked over RESP, HTTP and gRPC;
    writes server.md and server.svg
    --quick      fewer rounds
    --rounds N   turns of each contender (7, with --quick 2)
    --seconds S  length of one turn (3, with --quick 1)
    --out DIR    where to write (bench/results of the workspace)
tollgate-bench stores [--quick] [--rounds N] [--seconds S] [--only NAME,NAME] [--out DIR]
    all stores beside the bare primitives of their servers; writes stores.md and stores.svg
    --quick      fewer rounds
    --rounds N   turns of each contender (9, with --quick 2)
    --seconds S  length of one turn (0.5, with --quick 0.2)
    --only NAMES only durable, Redis, Memcached, PostgreSQL or etcd, and nothing is written
    --out DIR    where to write (bench/results of the workspace)
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
    Redis {
        size: redis::Size,
        out: PathBuf,
    },
    Http {
        size: http::Size,
        out: PathBuf,
    },
    Server {
        size: server::Size,
        out: PathBuf,
    },
    Stores {
        size: stores::Size,
        out: PathBuf,
    },
    Instructions,
    /// For the program itself.
    HttpChild(Vec<String>),
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
        _ if rest.iter().any(|option| option == "--help" || option == "-h") => Ok(Command::Help),
        "memory" => memory(rest),
        "redis" => on_redis(rest),
        "http" => in_http(rest),
        "server" => of_server(rest),
        "stores" => on_stores(rest),
        http::COMMAND => Ok(Command::HttpChild(rest.to_vec())),
        "instructions" if rest.is_empty() => Ok(Command::Instructions),
        "instructions" => {
            Err(format!("instructions `{}`: takes no options", rest.join(" ")).into())
        }
        child::COMMAND => Ok(Command::Child(rest.to_vec())),
        instructions::COMMAND => Ok(Command::Count(rest.to_vec())),
        "help" | "--help" | "-h" => Ok(Command::Help),
        other => Err(format!(
            "command `{other}`: must be memory, redis, http, server, stores, instructions or help"
        )
        .into()),
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
            "--rounds" => rounds = Some(whole("--rounds", options.next(), MOST_ROUNDS)?),
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

fn on_redis(options: &[String]) -> Outcome<Command> {
    let (mut quick, mut rounds, mut span, mut only) = (false, None, None, Vec::new());
    let mut out = workspace().join("bench/results");
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "--quick" => quick = true,
            "--rounds" => rounds = Some(whole("--rounds", options.next(), 1_000)?),
            "--seconds" => span = Some(seconds(options.next())?),
            "--only" => {
                let names = options.next().ok_or("--only: needs names")?;
                only = names.split(',').map(str::to_owned).collect();
            }
            "--out" => out = options.next().ok_or("--out: needs a directory")?.into(),
            other => {
                let rule = "must be --quick, --rounds N, --seconds S, --only NAMES or --out DIR";
                return Err(format!("option `{other}`: {rule}").into());
            }
        }
    }
    let size = redis::Size {
        rounds: rounds.unwrap_or(if quick { 5 } else { 15 }),
        span: span.unwrap_or(Duration::from_millis(300)),
        only,
    };
    Ok(Command::Redis { size, out })
}

fn of_server(options: &[String]) -> Outcome<Command> {
    let (mut quick, mut rounds, mut span) = (false, None, None);
    let mut out = workspace().join("bench/results");
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "--quick" => quick = true,
            "--rounds" => rounds = Some(whole("--rounds", options.next(), 99)?),
            "--seconds" => span = Some(seconds(options.next())?),
            "--out" => out = options.next().ok_or("--out: needs a directory")?.into(),
            other => {
                let rule = "must be --quick, --rounds N, --seconds S or --out DIR";
                return Err(format!("option `{other}`: {rule}").into());
            }
        }
    }
    let size = server::Size {
        rounds: rounds.unwrap_or(if quick { 2 } else { 7 }),
        span: span.unwrap_or(Duration::from_secs(if quick { 1 } else { 3 })),
        idle: 10_000,
    };
    Ok(Command::Server { size, out })
}

fn on_stores(options: &[String]) -> Outcome<Command> {
    let (mut quick, mut rounds, mut span, mut only) = (false, None, None, Vec::new());
    let mut out = workspace().join("bench/results");
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "--quick" => quick = true,
            "--rounds" => rounds = Some(whole("--rounds", options.next(), 99)?),
            "--seconds" => span = Some(seconds(options.next())?),
            "--only" => {
                let names = options.next().ok_or("--only: needs names")?;
                only = names.split(',').map(str::to_owned).collect();
            }
            "--out" => out = options.next().ok_or("--out: needs a directory")?.into(),
            other => {
                let rule = "must be --quick, --rounds N, --seconds S, --only NAMES or --out DIR";
                return Err(format!("option `{other}`: {rule}").into());
            }
        }
    }
    let size = stores::Size {
        rounds: rounds.unwrap_or(if quick { 2 } else { 9 }),
        span: span.unwrap_or(Duration::from_millis(if quick { 200 } else { 500 })),
        only,
    };
    Ok(Command::Stores { size, out })
}

fn in_http(options: &[String]) -> Outcome<Command> {
    let (mut quick, mut rounds, mut span) = (false, None, None);
    let mut out = workspace().join("bench/results");
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "--quick" => quick = true,
            "--rounds" => rounds = Some(whole("--rounds", options.next(), 99)?),
            "--seconds" => span = Some(seconds(options.next())?),
            "--out" => out = options.next().ok_or("--out: needs a directory")?.into(),
            other => {
                let rule = "must be --quick, --rounds N, --seconds S or --out DIR";
                return Err(format!("option `{other}`: {rule}").into());
            }
        }
    }
    let rounds = rounds.unwrap_or(if quick { 3 } else { 9 });
    let size = http::Size { rounds, span: span.unwrap_or(Duration::from_secs(1)) };
    Ok(Command::Http { size, out })
}

fn seconds(value: Option<&String>) -> Outcome<Duration> {
    let value = value.map_or("", String::as_str);
    let number = value.parse().ok().filter(|number| (0.1..=60.0).contains(number));
    let rule = || format!("--seconds `{value}`: must be a number from 0.1 to 60");
    Ok(Duration::from_secs_f64(number.ok_or_else(rule)?))
}

fn whole(option: &str, value: Option<&String>, most: usize) -> Outcome<usize> {
    let value = value.map_or("", String::as_str);
    let number = value.parse().ok().filter(|number| (1..=most).contains(number));
    Ok(number
        .ok_or_else(|| format!("{option} `{value}`: must be a whole number from 1 to {most}"))?)
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
    fn turns_on_redis_are_as_long_as_told() {
        let line = "redis --quick --seconds 0.5";
        let Ok(Command::Redis { size, .. }) = parsed(line) else { panic!("{line}") };
        assert_eq!((size.rounds, size.span), (5, Duration::from_millis(500)));
        assert!(matches!(parsed("redis --help"), Ok(Command::Help)));
    }

    #[test]
    fn errors_name_value_and_rule() {
        for (line, message) in [
            (
                "fly",
                "command `fly`: must be memory, redis, http, server, stores, instructions or help",
            ),
            ("memory --slow", "option `--slow`: must be --quick, --rounds N or --out DIR"),
            ("memory --rounds 0", "--rounds `0`: must be a whole number from 1 to 9"),
            ("memory --rounds", "--rounds ``: must be a whole number from 1 to 9"),
            ("memory --out", "--out: needs a directory"),
            ("redis --seconds 0", "--seconds `0`: must be a number from 0.1 to 60"),
            ("instructions now", "instructions `now`: takes no options"),
        ] {
            assert_eq!(parsed(line).err().unwrap().to_string(), message);
        }
    }
}
