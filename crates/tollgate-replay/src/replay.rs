//! A whole replay: logs in, a [`Report`] out.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use crate::demand::Demand;
use crate::format::Format;
use crate::input::{BytesRead, Lines};
use crate::keys::Keys;
use crate::log::{Log, Spread};
use crate::order::{Hit, Order};
use crate::reading::Reading;
use crate::report::{CandidateReport, DemandReport, Report, SpreadReport};
use crate::requests::Requests;
use crate::run::{Candidate, Run, Verdict};

/// The most keys that a replay distinguishes by default.
pub const MAX_KEYS: usize = 10_000_000;

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
pub struct Replay {
    /// The logs; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The limits.
    pub candidates: Vec<Candidate>,
    /// The format of the logs; detected for each if it is absent.
    pub format: Option<Format>,
    /// The rules by which lines become requests.
    pub reading: Reading,
    /// How much later than its neighbours a request may be in a log.
    pub window: Duration,
    /// Further spans for which to measure the demand of the keys.
    pub demand: Vec<Duration>,
    /// The most keys that are distinguished. Requests of further keys are counted and left out.
    pub max_keys: usize,
    /// Called for each denied request, with the times as the log states them.
    pub on_denied: Option<OnDenied>,
    bytes_read: BytesRead,
}

/// Called for each denied request.
pub type OnDenied = Box<dyn FnMut(&DeniedRequest<'_>) -> Result<(), String>>;

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("files", &self.files)
            .field("candidates", &self.candidates)
            .field("format", &self.format)
            .field("reading", &self.reading)
            .finish_non_exhaustive()
    }
}

/// A denied request.
#[derive(Clone, Copy, Debug)]
pub struct DeniedRequest<'a> {
    /// The limit, or the name of the rule.
    pub limit: &'a str,
    /// The file.
    pub log: &'a str,
    /// The number of its line, from 1.
    pub line: u64,
    /// When it began, in microseconds since the epoch.
    pub at: u64,
    /// The key of the request.
    pub key: &'a str,
    /// The cost of the request.
    pub cost: u64,
    /// How long it would have had to wait; absent if it could never pass.
    pub retry_after: Option<Duration>,
}

/// The progress of a replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Lines so far.
    pub lines: u64,
    /// Bytes of the files so far.
    pub bytes: u64,
}

/// How many requests pass between two calls of the progress function.
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
            max_keys: MAX_KEYS,
            on_denied: None,
            bytes_read: BytesRead::default(),
        }
    }

    /// Reads the logs and decides on every request.
    ///
    /// # Errors
    /// When a file cannot be read, a format is not known, or a limit is not valid.
    pub fn run(&mut self, progress: impl FnMut(Progress)) -> Result<Report, String> {
        let open = |file: &PathBuf| Lines::open(file, &self.bytes_read);
        let logs = self.files.iter().map(open).collect::<Result<_, _>>()?;
        self.run_lines(logs, progress)
    }

    /// The same for a log that is not a file. It may be compressed.
    ///
    /// # Errors
    /// As [`Replay::run`].
    ///
    /// ```
    /// use tollgate_replay::{Candidate, Replay};
    ///
    /// let log = "time,ip\n2026-10-10T12:00:00.5Z,192.0.2.1\n2026-10-10T12:00:01.5Z,192.0.2.1\n";
    /// let mut replay = Replay::new(Vec::new(), vec![Candidate::new("1/minute".parse()?)]);
    /// let report = replay.run_on("log.csv", log.as_bytes(), |_| {})?;
    /// assert_eq!(report.candidates[0].early.denied, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_on(
        &mut self,
        name: &str,
        log: impl Read + Send + 'static,
        progress: impl FnMut(Progress),
    ) -> Result<Report, String> {
        let lines = Lines::new(name.to_owned(), log, &self.bytes_read);
        let lines = lines.map_err(|error| format!("{name}: {error}"))?;
        self.run_lines(vec![lines], progress)
    }

    fn run_lines(
        &mut self,
        all: Vec<Lines>,
        mut progress: impl FnMut(Progress),
    ) -> Result<Report, String> {
        let mut keys = Keys::new(self.max_keys);
        let mut logs = Vec::new();
        for lines in all {
            if let Some(requests) = Requests::new(lines, self.format.clone(), &self.reading)? {
                logs.push(Log::new(requests, &mut keys)?);
            }
        }
        let names = logs.iter().map(|log| log.requests().name().to_owned()).collect();
        let formats = logs.iter().map(|log| log.requests().format().name().to_owned()).collect();
        let has_whole_seconds = logs.iter().any(Log::has_whole_seconds);
        let mut on_denied = self.on_denied.take();
        let mut state = State::new(self, names, has_whole_seconds);
        let mut requests = 0_u64;
        // The log whose next request is the earliest.
        while let Some((number, log)) = (0_u32..)
            .zip(logs.iter_mut())
            .filter(|(_, log)| log.next.is_some())
            .min_by_key(|(_, log)| log.next.map(|next| next.request.at))
        {
            if let Some(next) = log.next {
                state.request(&keys, number, next, &mut on_denied)?;
            }
            log.advance(&mut keys)?;
            requests += 1;
            if requests.is_multiple_of(PROGRESS) {
                progress(Progress { lines: requests, bytes: self.bytes_read.bytes() });
            }
        }
        progress(Progress { lines: requests, bytes: self.bytes_read.bytes() });
        state.end(&keys, &mut on_denied)?;
        let mut report = state.into_report(&keys);
        report.formats = formats;
        logs.into_iter().for_each(|log| report.lines.add(log.into_requests().into_counts()));
        self.on_denied = on_denied;
        Ok(report)
    }
}

/// Each candidate with its own store, and the requests in the order of one kind of times.
struct Pass {
    order: Order,
    runs: Vec<Run>,
}

/// The state that grows with each request.
struct State {
    candidates: Vec<Candidate>,
    log_names: Vec<String>,
    /// The pass with the times of the log. Requests of a whole second are all at its start.
    early: Pass,
    /// The pass with the requests of a whole second spread over it, where the log states whole
    /// seconds.
    spread: Option<Pass>,
    demands: Vec<Demand>,
    /// The requests of each key, by its number.
    requests: Vec<u32>,
    first: Option<u64>,
    last: u64,
    max_keys: usize,
}

impl State {
    fn new(replay: &Replay, log_names: Vec<String>, has_whole_seconds: bool) -> State {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let periods = replay.candidates.iter().flat_map(|candidate| candidate.usual.limits());
        let periods = periods.map(tollgate::Limit::period);
        let mut spans: Vec<u64> =
            periods.chain(replay.demand.iter().copied()).map(micros).collect();
        spans.sort_unstable();
        spans.dedup();
        let pass = |window: u64| Pass {
            order: Order::new(window),
            runs: replay.candidates.iter().map(|_| Run::new(replay.max_keys)).collect(),
        };
        State {
            candidates: replay.candidates.clone(),
            log_names,
            early: pass(micros(replay.window)),
            // Requests come in order here, and are spread over a second.
            spread: has_whole_seconds.then(|| pass(1_000_000)),
            demands: spans.into_iter().map(Demand::new).collect(),
            requests: Vec::new(),
            first: None,
            last: 0,
            max_keys: replay.max_keys,
        }
    }

    fn request(
        &mut self,
        keys: &Keys,
        log: u32,
        next: Spread,
        on_denied: &mut Option<OnDenied>,
    ) -> Result<(), String> {
        let Spread { request, later } = next;
        self.early.order.push(Hit {
            at: request.at,
            spread: later,
            key: request.key,
            cost: request.cost,
            line: request.line,
            log,
        });
        while let Some(hit) = self.early.order.pop(false) {
            self.hit(keys, hit, on_denied)?;
        }
        Ok(())
    }

    fn end(&mut self, keys: &Keys, on_denied: &mut Option<OnDenied>) -> Result<(), String> {
        while let Some(hit) = self.early.order.pop(true) {
            self.hit(keys, hit, on_denied)?;
        }
        self.decide_spread(keys, true)
    }

    fn hit(
        &mut self,
        keys: &Keys,
        hit: Hit,
        on_denied: &mut Option<OnDenied>,
    ) -> Result<(), String> {
        self.first.get_or_insert(hit.at);
        self.last = hit.at;
        for demand in &mut self.demands {
            demand.count(hit.at, hit.key, hit.cost);
        }
        let index = hit.key as usize;
        if index >= self.requests.len() {
            self.requests.resize(index + 1, 0);
        }
        self.requests[index] = self.requests[index].saturating_add(1);
        for (candidate, run) in self.candidates.iter().zip(&mut self.early.runs) {
            let verdict = run.hit(candidate, || keys.name(hit.key), hit, hit.at);
            let Verdict { allowed, retry_after } = verdict.map_err(|error| error.to_string())?;
            if let Some(on_denied) = on_denied
                && !allowed
            {
                on_denied(&DeniedRequest {
                    limit: &candidate.name,
                    log: &self.log_names[hit.log as usize],
                    line: hit.line,
                    at: hit.at,
                    key: keys.name(hit.key),
                    cost: hit.cost,
                    retry_after,
                })?;
            }
        }
        if let Some(spread) = &mut self.spread {
            spread.order.push(Hit { at: hit.at + u64::from(hit.spread), ..hit });
            self.decide_spread(keys, false)?;
        }
        Ok(())
    }

    /// Decides on the requests that are due among those that are spread over their seconds.
    fn decide_spread(&mut self, keys: &Keys, end: bool) -> Result<(), String> {
        let Some(spread) = &mut self.spread else { return Ok(()) };
        while let Some(hit) = spread.order.pop(end) {
            for (candidate, run) in self.candidates.iter().zip(&mut spread.runs) {
                run.hit(candidate, || keys.name(hit.key), hit, hit.at)
                    .map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn into_report(self, keys: &Keys) -> Report {
        let mut spread = self.spread.map(|pass| pass.runs.into_iter());
        let counts = &self.requests[..];
        let report = |run: Run| SpreadReport::new(run.into_tally(), keys, counts);
        let early = self.candidates.iter().zip(self.early.runs);
        let candidates = early.map(|(candidate, run)| CandidateReport {
            name: candidate.name.clone(),
            early: report(run),
            spread: spread.as_mut().and_then(Iterator::next).map(report),
        });
        Report {
            formats: Vec::new(),
            lines: Default::default(),
            candidates: candidates.collect(),
            demand: self.demands.iter().map(|demand| DemandReport::new(demand, keys)).collect(),
            keys: keys.len() as u64,
            max_keys: self.max_keys as u64,
            beyond_max_keys: keys.beyond(),
            late: self.early.order.late(),
            shortened_window: self.early.order.shortened(),
            first: self.first.unwrap_or(0),
            last: self.last,
        }
    }
}
