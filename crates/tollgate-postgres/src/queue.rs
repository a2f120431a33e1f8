//! What waits to be asked, how it becomes statements, and what comes of them.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_postgres::SimpleQueryRow;
use tollgate::{Decision, Error, ErrorKind};

use crate::command::{self, Answer, Call, Outcome};
use crate::connection::{Connection, first_value, limited};
use crate::failure::{self, Rolled, Verdict};
use crate::hits::Hits;

/// Statements are given twice the time after each timeout, up to this.
const LONGEST: Duration = Duration::from_secs(30);

/// Parts in one statement: a longer one would hold up others.
pub(crate) const BATCH: usize = 256;

#[derive(Debug)]
pub(crate) enum Job {
    Ask(Waiting),
    Run(Running),
}

/// What somebody asks in one go and waits for. It is never divided among statements that run at the
/// same time, so that its calls are decided in their order.
#[derive(Debug)]
pub(crate) struct Waiting {
    calls: Vec<Call>,
    answer: oneshot::Sender<Result<Vec<Decision>, Error>>,
    /// What is known so far, for each call.
    decided: Vec<Option<Vec<Decision>>>,
    /// How long its statement may take.
    timeout: Duration,
    /// Somebody else may hold a row of it: it must not make others wait.
    locked: bool,
    /// It holds something else than plain hits, or hits of which some may be denied.
    not_plain: bool,
    /// It may be the one for which others failed.
    alone: bool,
}

/// A statement of its own, and who waits for it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) statement: String,
    pub(crate) timeout: Duration,
    pub(crate) answer: oneshot::Sender<Result<Option<String>, Error>>,
}

impl Waiting {
    pub(crate) fn new(
        calls: Vec<Call>,
        answer: oneshot::Sender<Result<Vec<Decision>, Error>>,
    ) -> Self {
        let decided = calls.iter().map(|_| None).collect();
        Waiting {
            calls,
            answer,
            decided,
            timeout: Duration::ZERO,
            locked: false,
            not_plain: false,
            alone: false,
        }
    }

    /// What is still to be asked.
    fn open(&self) -> impl Iterator<Item = &Call> + Clone {
        self.calls.iter().zip(&self.decided).filter(|(_, d)| d.is_none()).map(|(call, _)| call)
    }

    fn parts(&self) -> usize {
        self.calls.iter().map(|call| call.parts.len()).sum()
    }

    /// Takes what came of its open calls. Gives itself back if some of them are still open.
    fn settle(mut self, answer: &mut Answer) -> Option<Waiting> {
        let open = self.calls.iter().zip(&mut self.decided).filter(|(_, d)| d.is_none());
        let mut failed = None;
        for (call, decided) in open {
            match answer.next(call) {
                Outcome::Decided(decisions) => *decided = Some(decisions),
                Outcome::Failed(error) => failed = Some(error),
                Outcome::Locked => self.locked = true,
                Outcome::NotPlain => self.not_plain = true,
            }
        }
        if let Some(error) = failed {
            self.fail(error);
            return None;
        }
        if self.decided.iter().any(Option::is_none) {
            return Some(self);
        }
        let _ = self.answer.send(Ok(self.decided.into_iter().flatten().flatten().collect()));
        None
    }

    fn fail(self, error: Error) {
        // What is surely not executed must be true of all its calls.
        let executed = self.decided.iter().any(Option::is_some);
        let error = match error.kind() {
            ErrorKind::Unavailable if executed => {
                Error::lost(format!("some keys were decided, others not: {}", error.detail()))
            }
            _ => error,
        };
        let _ = self.answer.send(Err(error));
    }
}

/// Calls in the order in which they came.
pub(crate) struct Queue {
    jobs: VecDeque<Job>,
    /// Calls whose rows somebody else holds: they are looked at again after a pause.
    locked: Vec<Waiting>,
    timeout: Duration,
    /// Statements that succeeded.
    answered: u64,
    /// The error of the last statement that was refused.
    refusal: Option<Error>,
}

/// What goes to the server as one statement.
pub(crate) enum Next {
    Batch(Vec<Waiting>),
    Run(Running),
}

/// What came of it.
pub(crate) enum Done {
    /// With what was asked as plain hits, if all was.
    Batch(Vec<Waiting>, Option<Hits>, Result<Vec<SimpleQueryRow>, Failure>),
    Run(Running, Result<Vec<SimpleQueryRow>, Failure>),
}

/// An error, and whether the connection is of no more use.
pub(crate) struct Failure {
    verdict: Verdict,
    breaks: bool,
}

impl Queue {
    /// `timeout` is what a statement may take at first.
    pub(crate) fn new(timeout: Duration) -> Queue {
        Queue { jobs: VecDeque::new(), locked: Vec::new(), timeout, answered: 0, refusal: None }
    }

    pub(crate) fn push(&mut self, mut job: Job) {
        if let Job::Ask(waiting) = &mut job {
            waiting.timeout = self.timeout;
        }
        self.jobs.push_back(job);
    }

    /// How many statements have succeeded so far.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// Why the last statement was refused, once.
    pub(crate) fn take_refusal(&mut self) -> Option<Error> {
        self.refusal.take()
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.jobs.is_empty()
    }

    pub(crate) fn is_locked(&self) -> bool {
        !self.locked.is_empty()
    }

    /// Has the calls whose rows were held looked at again.
    pub(crate) fn unlock(&mut self) {
        let locked = std::mem::take(&mut self.locked);
        self.first(locked);
    }

    /// Puts calls before all others, in their order.
    fn first(&mut self, waiting: Vec<Waiting>) {
        for waiting in waiting.into_iter().rev() {
            self.jobs.push_front(Job::Ask(waiting));
        }
    }

    pub(crate) fn fail_all(&mut self, error: &Error) {
        self.unlock();
        for job in self.jobs.drain(..) {
            match job {
                Job::Ask(waiting) => waiting.fail(error.clone()),
                Job::Run(running) => drop(running.answer.send(Err(error.clone()))),
            }
        }
    }

    /// The next statement: all calls that wait, up to a bound. Who has left is not asked for.
    pub(crate) fn next(&mut self) -> Option<Next> {
        let mut batch: Vec<Waiting> = Vec::new();
        let mut parts = 0;
        while let Some(job) = self.jobs.pop_front() {
            match job {
                Job::Ask(waiting) if waiting.answer.is_closed() => {}
                Job::Run(running) if batch.is_empty() => return Some(Next::Run(running)),
                Job::Ask(waiting)
                    if batch.is_empty()
                        || (parts + waiting.parts() <= BATCH
                            && !waiting.alone
                            && !batch[0].alone) =>
                {
                    parts += waiting.parts();
                    batch.push(waiting);
                }
                job => {
                    self.jobs.push_front(job);
                    break;
                }
            }
        }
        (!batch.is_empty()).then_some(Next::Batch(batch))
    }

    /// Answers who can be answered, and puts back who is to be asked again. True if the connection
    /// is broken.
    pub(crate) fn settle(&mut self, done: Done) -> bool {
        match done {
            Done::Run(running, result) => {
                let breaks = result.as_ref().is_err_and(|failure| failure.breaks);
                self.answered += u64::from(result.is_ok());
                if let Err(Failure { verdict: Verdict::Refused(error), .. }) = &result {
                    self.refusal = Some(error.clone());
                }
                let result = result.map(|rows| first_value(&rows));
                let _ = running.answer.send(result.map_err(|failure| failure.verdict.error()));
                breaks
            }
            Done::Batch(batch, hits, Ok(rows)) => {
                self.answered += 1;
                self.answer(batch, hits, &rows);
                false
            }
            Done::Batch(batch, _, Err(Failure { verdict, breaks })) => {
                if let Verdict::Refused(error) = &verdict {
                    self.refusal = Some(error.clone());
                }
                self.failed(batch, verdict);
                breaks
            }
        }
    }

    fn answer(&mut self, batch: Vec<Waiting>, hits: Option<Hits>, rows: &[SimpleQueryRow]) {
        let answer = match hits {
            Some(hits) => Some(Answer::Hits(hits.decisions(rows).into_iter())),
            None => Answer::steps(rows),
        };
        // Somebody else made one of the keys first.
        let Some(mut answer) = answer else { return self.first(batch) };
        let open = batch.into_iter().filter_map(|waiting| waiting.settle(&mut answer));
        let (locked, open) = open.partition(|waiting| waiting.locked);
        self.locked.extend::<Vec<_>>(locked);
        self.first(open);
    }

    fn failed(&mut self, mut batch: Vec<Waiting>, verdict: Verdict) {
        match verdict {
            Verdict::Again(rolled, text) => {
                tracing::debug!(text, "rolled back, asking again");
                for waiting in &mut batch {
                    waiting.timeout = (waiting.timeout * 2).min(LONGEST);
                    waiting.locked |= rolled == Rolled::Lock;
                }
                self.first(batch);
            }
            Verdict::OneOfThem(_) if batch.len() > 1 => {
                batch.iter_mut().for_each(|waiting| waiting.alone = true);
                self.first(batch);
            }
            Verdict::OneOfThem(error) | Verdict::Refused(error) | Verdict::Lost(error) => {
                batch.into_iter().for_each(|waiting| waiting.fail(error.clone()));
            }
        }
    }
}

impl Next {
    /// `patience` is how long it may be on its way, beside the time that the server may take for
    /// it. Then the connection is dead.
    pub(crate) async fn execute(
        self,
        connection: &Connection,
        schema: &str,
        patience: Duration,
    ) -> Done {
        match self {
            Next::Run(running) => {
                let sql = limited(running.timeout, running.timeout, &running.statement);
                let result = send(connection, running.timeout + patience, &sql).await;
                Done::Run(running, result)
            }
            Next::Batch(batch) => {
                let skip = batch.iter().any(|waiting| waiting.locked);
                let calls = || batch.iter().flat_map(Waiting::open);
                let is_plain = !batch.iter().any(|waiting| waiting.locked || waiting.not_plain);
                let hits = is_plain.then(|| Hits::of(schema, calls())).flatten();
                let statement = match &hits {
                    Some(hits) => hits.statement(),
                    None => &command::statement(schema, skip, calls()),
                };
                let timeout = batch.iter().map(|w| w.timeout).max().unwrap_or(LONGEST);
                // So that there is time left to ask for the others, when somebody else holds a row.
                let sql = limited(timeout, timeout / 2, statement);
                let result = send(connection, timeout + patience, &sql).await;
                Done::Batch(batch, hits, result)
            }
        }
    }
}

async fn send(
    connection: &Connection,
    longest: Duration,
    sql: &str,
) -> Result<Vec<SimpleQueryRow>, Failure> {
    match tokio::time::timeout(longest, connection.rows(sql)).await {
        Ok(result) => result.map_err(|error| Failure {
            verdict: failure::of_statement(&error),
            breaks: failure::breaks(&error),
        }),
        Err(_) => {
            let error = Error::lost(format!("silence for {longest:?}"));
            Err(Failure { verdict: Verdict::Lost(error), breaks: true })
        }
    }
}
