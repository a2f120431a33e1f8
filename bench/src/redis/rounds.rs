//! Contenders take turns, so that a change of the machine's mood meets all, and the best of several
//! rounds counts.

use super::contenders::{Contender, Kind, Scene};
use super::server::{Counted, Server};
use super::turn::Turn;
use crate::{Outcome, progress};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use tokio::runtime::Runtime;

/// The measurements of one contender.
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) scene: Scene,
    pub(crate) kind: Kind,
    /// Hits per second in the best round.
    pub(crate) rate: f64,
    /// In every round the server had to wait for a core.
    pub(crate) disturbed: bool,
    /// In all rounds; not a number where the contender does not look at the answers.
    pub(crate) allowed: f64,
    /// Commands sent for each hit, in all rounds.
    pub(crate) sent: f64,
    /// Commands that the script called for each hit, in all rounds.
    pub(crate) inside: f64,
    pub(crate) bytes_in: f64,
    pub(crate) bytes_out: f64,
    /// The least microseconds of CPU time for each hit.
    pub(crate) client: f64,
    pub(crate) server: f64,
    /// Microseconds in the script for each hit, the least.
    pub(crate) script: Option<f64>,
    /// As in [`Turn`], of the best round.
    pub(crate) waits: [Option<f64>; 4],
}

struct Round {
    turn: Turn,
    counted: Counted,
    /// Seconds.
    client: f64,
    waited: Duration,
}

impl Round {
    fn rate(&self) -> f64 {
        self.turn.rate()
    }

    /// Whether other processes took a noticeable part of the server's time.
    fn disturbed(&self) -> bool {
        self.waited > self.turn.wall / 20
    }
}

/// Runs them all, the first round untimed to warm up.
pub(crate) fn run(
    contenders: &[Contender],
    server: &Server,
    runtime: &Runtime,
    count: usize,
    span: Duration,
) -> Outcome<Vec<Row>> {
    let mut controls = server.controls()?;
    let mut seen: Vec<Vec<Round>> = contenders.iter().map(|_| Vec::new()).collect();
    for number in 0..=count {
        progress(&format!("redis: round {number} of {count}"));
        for (contender, rounds) in contenders.iter().zip(&mut seen) {
            let (before, cpu, waited) = (Counted::look(&mut controls)?, cpu(), server.waited());
            let turn = contender
                .turn(server, runtime, span)
                .map_err(|error| format!("{}: {error}", contender.id))?;
            let (client, waited) = (self::cpu() - cpu, server.waited().saturating_sub(waited));
            let counted = Counted::look(&mut controls)?.since(&before);
            if number > 0 {
                rounds.push(Round { turn, counted, client, waited });
            }
        }
    }
    Ok(contenders.iter().zip(&seen).filter_map(|(who, rounds)| row(who, rounds)).collect())
}

fn row(contender: &Contender, rounds: &[Round]) -> Option<Row> {
    let disturbed = rounds.iter().all(Round::disturbed);
    let counted = rounds.iter().filter(|round| disturbed || !round.disturbed());
    let best = counted.max_by(|a, b| a.rate().total_cmp(&b.rate()))?;
    let sum = |of: &dyn Fn(&Round) -> f64| rounds.iter().map(of).sum::<f64>();
    let hits = sum(&|round| round.turn.hits);
    let least = |of: &dyn Fn(&Round) -> f64| rounds.iter().map(of).fold(f64::INFINITY, f64::min);
    Some(Row {
        id: contender.id,
        title: contender.title,
        scene: contender.scene,
        kind: contender.kind,
        rate: best.rate(),
        disturbed,
        allowed: sum(&|round| round.turn.allowed) / hits,
        sent: sum(&|round| round.counted.sent()) / hits,
        inside: sum(&|round| round.counted.inside()) / hits,
        bytes_in: sum(&|round| round.counted.bytes_in) / hits,
        bytes_out: sum(&|round| round.counted.bytes_out) / hits,
        client: 1e6 * least(&|round| round.client / round.turn.hits),
        server: 1e6 * least(&|round| round.counted.cpu / round.turn.hits),
        script: rounds
            .iter()
            .filter_map(|round| Some(round.counted.script_micros()? / round.turn.hits))
            .reduce(f64::min),
        waits: best.turn.waits,
    })
}

/// Seconds of CPU time of this process and of the children that have ended, which are those of the
/// turns.
fn cpu() -> f64 {
    let own = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may hold blanks; after it come numbers, among them the ticks of children.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(13).take(2).filter_map(|f| f.parse::<f64>().ok());
    own.as_secs_f64() + ticks.sum::<f64>() / 100.0
}
