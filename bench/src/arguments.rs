//! The command line.

use crate::{
    KEYS, Outcome, Size, child, cluster, http, instructions, matrix, redis, server, stores,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const HELP: &str = "\
tollgate-bench memory [--quick] [--rounds N] [--minutes M] [--seed N] [--out DIR]
    the matrix, then speed, memory, cleaning and tails of one case beside more peers; writes
    matrix.md, matrix.svg, memory.md and memory.svg;
    heap bytes per key only if built with the feature `heap`, as `cargo xtask bench` does
    --quick      fewer rounds
    --rounds N   turns of each contender (7, with --quick 3)
    --minutes M  no cell of the matrix begins later (60, with --quick 5)
    --seed N     which cells of the matrix come first (1)
    --out DIR    where to write (bench/results of the repository)
tollgate-bench matrix [--quick] [--rounds N] [--minutes M] [--seed N] [--out DIR]
    only the matrix: key type, number of keys and limit, with one thread and with two
tollgate-bench redis [--quick] [--rounds N] [--seconds S] [--only NAME,NAME] [--out DIR]
    on a redis-server of its own beside redis-benchmark, INCR + PEXPIRE and Python limits;
    writes redis.md and redis.svg
    --quick      fewer rounds
    --rounds N   turns of each contender (15, with --quick 5)
    --seconds S  length of one turn (0.3)
    --only NAMES only these contenders, and nothing is written: for a profiler
    --out DIR    where to write (bench/results of the repository)
tollgate-bench http [--quick] [--rounds N] [--seconds S] [--out DIR]
    an axum server without a limiter, with tollgate-tower and with tower_governor, asked by wrk;
    writes http.md
    --quick      fewer rounds
    --rounds N   turns of each contender (9, with --quick 3)
    --seconds S  length of one turn (1)
    --out DIR    where to write (bench/results of the repository)
tollgate-bench server [--quick] [--rounds N] [--seconds S] [--out DIR]
    the server tollgate beside throttlecrab-server and Redis, asked over RESP, HTTP and gRPC;
    writes server.md and server.svg
    --quick      fewer rounds
    --rounds N   turns of each contender (7, with --quick 2)
    --seconds S  length of one turn (3, with --quick 1)
    --out DIR    where to write (bench/results of the repository)
tollgate-bench stores [--quick] [--rounds N] [--seconds S] [--only NAME,NAME] [--out DIR]
    all stores beside the bare primitives of their servers; writes stores.md and stores.svg
    --quick      fewer rounds
    --rounds N   turns of each contender (9, with --quick 2)
    --seconds S  length of one turn (0.5, with --quick 0.2)
    --only NAMES only durable, Redis, Memcached, PostgreSQL or etcd, and nothing is written
    --out DIR    where to write (bench/results of the repository)
tollgate-bench cluster [--quick] [--seconds S] [--out DIR]
    three nodes on one Redis: exact, leased, replicated and every hit broadcast; writes cluster.md
    --quick      shorter turns
    --seconds S  length of one turn (6, with --quick 3.5)
    --out DIR    where to write (bench/results of the repository)
tollgate-bench instructions
    instructions of one hit, counted by valgrind
";

/// With more rounds the most frequent key would use up its burst, see [`crate::contenders::LIVE`].
const MOST_ROUNDS: usize = 9;

/// The command.
pub(crate) enum Command {
    Memory {
        size: Size,
        matrix: matrix::Size,
        out: PathBuf,
    },
    Matrix {
        size: matrix::Size,
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
    Cluster {
        size: cluster::Size,
        out: PathBuf,
    },
    Instructions,
    /// Hidden: arguments of a child process.
    HttpChild(Vec<String>),
    /// Hidden: arguments of a child process.
    Child(Vec<String>),
    /// Hidden: arguments of a child process.
    MatrixBytes(Vec<String>),
    /// Hidden: arguments of a child process under valgrind.
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
        "matrix" => of_cells(rest),
        "redis" => on_redis(rest),
        "http" => in_http(rest),
        "server" => of_server(rest),
        "stores" => on_stores(rest),
        "cluster" => of_nodes(rest),
        http::COMMAND => Ok(Command::HttpChild(rest.to_vec())),
        "instructions" if rest.is_empty() => Ok(Command::Instructions),
        "instructions" => {
            Err(format!("instructions `{}`: takes no options", rest.join(" ")).into())
        }
        matrix::COMMAND => Ok(Command::MatrixBytes(rest.to_vec())),
        child::COMMAND => Ok(Command::Child(rest.to_vec())),
        instructions::COMMAND => Ok(Command::Count(rest.to_vec())),
        "help" | "--help" | "-h" => Ok(Command::Help),
        other => Err(format!(
            "command `{other}`: must be memory, matrix, redis, http, server, stores, cluster, instructions or help"
        )
        .into()),
    }
}

fn memory(options: &[String]) -> Outcome<Command> {
    let takes = Takes { rounds: MOST_ROUNDS, matrix: true, ..Takes::default() };
    let options = Options::read(options, &takes)?;
    let size = Size {
        keys: KEYS,
        hot_hits: 2_000_000,
        rounds: options.rounds(3, 7),
        repeats: if options.quick { 1 } else { 3 },
    };
    Ok(Command::Memory { size, matrix: options.matrix(), out: options.out })
}

fn of_cells(options: &[String]) -> Outcome<Command> {
    let options = Options::read(options, &Takes { matrix: true, ..Takes::default() })?;
    Ok(Command::Matrix { size: options.matrix(), out: options.out })
}

fn on_redis(options: &[String]) -> Outcome<Command> {
    let options =
        Options::read(options, &Takes { rounds: 1_000, seconds: true, only: true, matrix: false })?;
    let (rounds, span) = (options.rounds(5, 15), options.millis(300, 300));
    Ok(Command::Redis { size: redis::Size { rounds, span, only: options.only }, out: options.out })
}

fn in_http(options: &[String]) -> Outcome<Command> {
    let options = Options::read(options, &Takes { seconds: true, ..Takes::default() })?;
    let (rounds, span) = (options.rounds(3, 9), options.millis(1_000, 1_000));
    Ok(Command::Http { size: http::Size { rounds, span }, out: options.out })
}

fn of_server(options: &[String]) -> Outcome<Command> {
    let options = Options::read(options, &Takes { seconds: true, ..Takes::default() })?;
    let (rounds, span) = (options.rounds(2, 7), options.millis(1_000, 3_000));
    Ok(Command::Server { size: server::Size { rounds, span, idle: 10_000 }, out: options.out })
}

fn on_stores(options: &[String]) -> Outcome<Command> {
    let options = Options::read(options, &Takes { seconds: true, only: true, ..Takes::default() })?;
    let (rounds, span) = (options.rounds(2, 9), options.millis(200, 500));
    Ok(Command::Stores {
        size: stores::Size { rounds, span, only: options.only },
        out: options.out,
    })
}

fn of_nodes(options: &[String]) -> Outcome<Command> {
    let options = Options::read(options, &Takes { seconds: true, ..Takes::default() })?;
    Ok(Command::Cluster {
        size: cluster::Size { span: options.millis(3_500, 6_000) },
        out: options.out,
    })
}

/// The options of a benchmark. Each benchmark has its own defaults for absent ones.
struct Options {
    quick: bool,
    rounds: Option<usize>,
    span: Option<Duration>,
    only: Vec<String>,
    minutes: Option<usize>,
    seed: usize,
    out: PathBuf,
}

/// The options that a benchmark has besides `--quick` and `--out`.
struct Takes {
    /// The most rounds.
    rounds: usize,
    seconds: bool,
    only: bool,
    /// The minutes and the seed of the matrix.
    matrix: bool,
}

impl Default for Takes {
    fn default() -> Self {
        Takes { rounds: 99, seconds: false, only: false, matrix: false }
    }
}

impl Takes {
    fn unknown(&self, option: &str) -> String {
        let mut known = vec!["--quick", "--rounds N"];
        known.extend(self.seconds.then_some("--seconds S"));
        known.extend(self.only.then_some("--only NAMES"));
        known.extend(self.matrix.then_some("--minutes M, --seed N"));
        format!("option `{option}`: must be {} or --out DIR", known.join(", "))
    }
}

impl Options {
    fn read(options: &[String], takes: &Takes) -> Outcome<Options> {
        let out = repository().join("bench/results");
        let mut read = Options {
            quick: false,
            rounds: None,
            span: None,
            only: Vec::new(),
            minutes: None,
            seed: 1,
            out,
        };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match option.as_str() {
                "--quick" => read.quick = true,
                "--rounds" => {
                    read.rounds = Some(whole("--rounds", options.next(), takes.rounds)?);
                }
                "--seconds" if takes.seconds => read.span = Some(seconds(options.next())?),
                "--only" if takes.only => {
                    let names = options.next().ok_or("--only: needs names")?;
                    read.only = names.split(',').map(str::to_owned).collect();
                }
                "--minutes" if takes.matrix => {
                    read.minutes = Some(whole("--minutes", options.next(), 1_440)?);
                }
                "--seed" if takes.matrix => {
                    read.seed = whole("--seed", options.next(), 1_000_000)?;
                }
                "--out" => read.out = options.next().ok_or("--out: needs a directory")?.into(),
                other => return Err(takes.unknown(other).into()),
            }
        }
        Ok(read)
    }

    fn rounds(&self, quick: usize, usual: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { quick } else { usual })
    }

    fn matrix(&self) -> matrix::Size {
        let minutes = self.minutes.unwrap_or(if self.quick { 5 } else { 60 });
        matrix::Size {
            rounds: self.rounds(3, 7),
            time: Duration::from_secs(60 * minutes as u64),
            seed: self.seed as u64,
        }
    }

    fn millis(&self, quick: u64, usual: u64) -> Duration {
        self.span.unwrap_or(Duration::from_millis(if self.quick { quick } else { usual }))
    }
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

/// The root of the repository.
pub(crate) fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Outcome<Command> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn quick_means_fewer_rounds_unless_set() {
        for (line, expected) in
            [("memory", 7), ("memory --quick", 3), ("memory --quick --rounds 5", 5)]
        {
            let Ok(Command::Memory { size, .. }) = parsed(line) else { panic!("{line}") };
            assert_eq!(size.rounds, expected, "{line}");
        }
    }

    #[test]
    fn every_benchmark_has_its_own_defaults() {
        let spans = |line: &str| match parsed(line) {
            Ok(Command::Redis { size, .. }) => (size.rounds, size.span.as_millis()),
            Ok(Command::Http { size, .. }) => (size.rounds, size.span.as_millis()),
            Ok(Command::Server { size, .. }) => (size.rounds, size.span.as_millis()),
            Ok(Command::Stores { size, .. }) => (size.rounds, size.span.as_millis()),
            _ => panic!("{line}"),
        };
        for (bench, usual, quick) in [
            ("redis", (15, 300), (5, 300)),
            ("http", (9, 1_000), (3, 1_000)),
            ("server", (7, 3_000), (2, 1_000)),
            ("stores", (9, 500), (2, 200)),
        ] {
            assert_eq!((spans(bench), spans(&format!("{bench} --quick"))), (usual, quick));
        }
    }

    #[test]
    fn turns_on_redis_are_as_long_as_set() {
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
                "command `fly`: must be memory, matrix, redis, http, server, stores, cluster, instructions or help",
            ),
            (
                "memory --slow",
                "option `--slow`: must be --quick, --rounds N, --minutes M, --seed N or --out DIR",
            ),
            ("memory --rounds 0", "--rounds `0`: must be a whole number from 1 to 9"),
            ("memory --rounds", "--rounds ``: must be a whole number from 1 to 9"),
            ("memory --out", "--out: needs a directory"),
            (
                "memory --seconds 1",
                "option `--seconds`: must be --quick, --rounds N, --minutes M, --seed N or --out DIR",
            ),
            ("matrix --minutes 0", "--minutes `0`: must be a whole number from 1 to 1440"),
            (
                "http --only a",
                "option `--only`: must be --quick, --rounds N, --seconds S or --out DIR",
            ),
            (
                "stores -x",
                "option `-x`: must be --quick, --rounds N, --seconds S, --only NAMES or --out DIR",
            ),
            ("redis --seconds 0", "--seconds `0`: must be a number from 0.1 to 60"),
            ("instructions now", "instructions `now`: takes no options"),
        ] {
            assert_eq!(parsed(line).err().unwrap().to_string(), message);
        }
    }
}
