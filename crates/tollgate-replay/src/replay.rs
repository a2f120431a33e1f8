//! A whole replay: logs in, a [`Report`] out.

use std::path::PathBuf;
use std::time::Duration;

use crate::demand::Demand;
use crate::format::Format;
use crate::input::{BytesRead, Lines};
use crate::keys::{Keys, MAX_KEYS};
use crate::order::{Hit, Order};
use crate::report::{CandidateReport, DemandReport, Report, SpreadReport};
use crate::requests::{LineCounts, Reading, Request, Requests};
use crate::run::{Candidate, Run};

/// Logs and the limits to try on them.
///
/// ```no_run
/// use tollgate_replay::{Candidate, Replay};
///
/// let mut replay = Replay::new(vec!["access.log".into()], vec![Candidate::new("100/minute".parse()?)]);
/// let report = replay.run(|_| {})?;
/// println!("{}", report.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Replay {
    /// The logs; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The limits.
    pub candidates: Vec<Candidate>,
    /// The format of the logs; detected for each if it is absent.
    pub format: Option<Format>,
    /// How lines become requests.
    pub reading: Reading,
    /// How much later than its neighbours a request may be in a log.
    pub window: Duration,
    /// Further spans for which to measure the demand of the keys.
    pub demand: Vec<Duration>,
    bytes_read: BytesRead,
}

/// The progress of a replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Lines so far.
    pub lines: u64,
    /// Bytes of the files so far.
    pub bytes: u64,
}

/// How many lines pass between two calls of the progress function.
const PROGRESS: u64 = 1 << 14;

impl Replay {
    /// A replay with the defaults: keys are addresses, formats are detected, lines are put in order
    /// within five minutes.
    #[must_use]
    pub fn new(files: Vec<PathBuf>, candidates: Vec<Candidate>) -> Replay {
        Replay {
            files,
            candidates,
            format: None,
            reading: Reading::default(),
            window: Duration::from_secs(300),
            demand: Vec::new(),
            bytes_read: BytesRead::default(),
        }
    }

    /// Reads the logs and decides on every request.
    ///
    /// # Errors
    /// When a file cannot be read, a format is not known, or a limit is not valid.
    pub fn run(&mut self, mut progress: impl FnMut(Progress)) -> Result<Report, String> {
        let mut logs = Vec::new();
        for file in &self.files {
            let lines = Lines::open(file, &self.bytes_read)?;
            let log = Requests::new(lines, self.format.clone(), self.reading.clone())?;
            logs.push(Log { requests: log, next: None, key: String::new() });
        }
        let formats = logs.iter().map(|log| log.requests.format().name().to_owned()).collect();
        let mut state = State::new(self);
        for log in &mut logs {
            log.advance()?;
        }
        let mut lines = 0_u64;
        // The log whose next request is the earliest.
        while let Some(log) = logs
            .iter_mut()
            .filter(|log| log.next.is_some())
            .min_by_key(|log| log.next.map(|request| request.at))
        {
            if let Some(request) = log.next {
                state.request(&log.key, request)?;
            }
            log.advance()?;
            lines += 1;
            if lines.is_multiple_of(PROGRESS) {
                progress(Progress { lines, bytes: self.bytes_read.bytes() });
            }
        }
        progress(Progress { lines, bytes: self.bytes_read.bytes() });
        let mut counts = LineCounts::default();
        for log in logs {
            counts.add(log.requests.into_counts());
        }
        state.end(formats, counts)
    }
}

struct Log {
    requests: Requests,
    next: Option<Request>,
    key: String,
}

impl Log {
    fn advance(&mut self) -> Result<(), String> {
        self.next = self.requests.next(&mut self.key)?;
        Ok(())
    }
}

/// The state that grows with each request.
struct State<'a> {
    candidates: &'a [Candidate],
    keys: Keys,
    order: Order,
    /// Each candidate; twice in a log that states whole seconds: with all requests of a second at
    /// its start, and spread over it.
    runs: Vec<(Run, Option<Run>)>,
    demands: Vec<Demand>,
    /// Requests of one whole second.
    second: Vec<Hit>,
    first: Option<u64>,
    last: u64,
}

impl<'a> State<'a> {
    fn new(replay: &'a Replay) -> State<'a> {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let periods = replay.candidates.iter().flat_map(|candidate| candidate.usual.limits());
        let periods = periods.map(tollgate::Limit::period);
        let mut spans: Vec<u64> =
            periods.chain(replay.demand.iter().copied()).map(micros).collect();
        spans.sort_unstable();
        spans.dedup();
        State {
            candidates: &replay.candidates,
            keys: Keys::default(),
            order: Order::new(micros(replay.window)),
            runs: replay.candidates.iter().map(|_| (Run::new(), None)).collect(),
            demands: spans.into_iter().map(Demand::new).collect(),
            second: Vec::new(),
            first: None,
            last: 0,
        }
    }

    fn request(&mut self, key: &str, request: Request) -> Result<(), String> {
        let Some(key) = self.keys.number(key) else { return Ok(()) };
        let Request { at, whole_second, cost } = request;
        self.order.push(at, key, cost, whole_second);
        while let Some(hit) = self.order.pop(false) {
            self.hit(hit)?;
        }
        Ok(())
    }

    fn hit(&mut self, hit: Hit) -> Result<(), String> {
        if self.first.is_none() {
            self.first = Some(hit.at);
            if hit.whole_second {
                self.runs.iter_mut().for_each(|(_, spread)| *spread = Some(Run::new()));
            }
        }
        self.last = hit.at;
        for demand in &mut self.demands {
            demand.count(hit.at, hit.key, hit.cost);
        }
        if self.second.first().is_some_and(|first| first.at != hit.at) {
            self.end_second()?;
        }
        if hit.whole_second {
            self.second.push(hit);
            return Ok(());
        }
        self.decide(hit, hit.at, hit.at)
    }

    /// Decides on all requests of a whole second.
    fn end_second(&mut self) -> Result<(), String> {
        let hits = std::mem::take(&mut self.second);
        let count = hits.len() as u64;
        for (index, hit) in hits.iter().enumerate() {
            let spread = hit.at + index as u64 * 1_000_000 / count.max(1);
            self.decide(*hit, hit.at, spread)?;
        }
        // Keeps the allocated memory.
        self.second = hits;
        self.second.clear();
        Ok(())
    }

    fn decide(&mut self, hit: Hit, early: u64, spread: u64) -> Result<(), String> {
        let name = self.keys.name(hit.key);
        for (candidate, (first, second)) in self.candidates.iter().zip(&mut self.runs) {
            first.hit(candidate, name, hit, early).map_err(|error| error.to_string())?;
            if let Some(second) = second {
                second.hit(candidate, name, hit, spread).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn end(mut self, formats: Vec<String>, counts: LineCounts) -> Result<Report, String> {
        while let Some(hit) = self.order.pop(true) {
            self.hit(hit)?;
        }
        self.end_second()?;
        let keys = &self.keys;
        let candidates =
            self.candidates.iter().zip(self.runs).map(|(candidate, (early, spread))| {
                CandidateReport {
                    name: candidate.name.clone(),
                    early: SpreadReport::new(early.into_tally(), keys),
                    spread: spread.map(|spread| SpreadReport::new(spread.into_tally(), keys)),
                }
            });
        Ok(Report {
            formats,
            candidates: candidates.collect(),
            demand: self.demands.iter().map(|demand| DemandReport::new(demand, keys)).collect(),
            keys: keys.len() as u64,
            max_keys: MAX_KEYS as u64,
            beyond_max_keys: keys.beyond(),
            late: self.order.late(),
            first: self.first.unwrap_or(0),
            last: self.last,
            lines: counts,
        })
    }
}
