//! What waits to be asked, how it becomes statements, and what comes of them.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate::{Decision, Error};

use crate::command::{self, Answer, Call, Outcome};
use crate::connection::{Connection, limited};
use crate::failure::{self, Rolled, Verdict};

/// Statements are given twice the time after each timeout, up to this.
const LONGEST: Duration = Duration::from_secs(30);

/// How long a statement may take on its way, beside the time that the server may take for it. Then the connection is dead.
const SILENCE: Duration = Duration::from_secs(1);

/// Parts in one statement: a longer one would hold up others.
const BATCH: usize = 256;

#[derive(Debug)]
pub(crate) enum Job {
    Ask(Waiting),
    Run(Running),
}

/// A call and who waits for it.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) call: Call,
    pub(crate) answer: oneshot::Sender<Result<Vec<Decision>, Error>>,
    /// How long its statement may take.
    pub(crate) timeout: Duration,
    /// Somebody else may hold a row of it: it must not make others wait.
    pub(crate) locked: bool,
    /// It may be the one for which others failed.
    pub(crate) alone: bool,
}

/// A statement of its own, and who waits for it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) statement: String,
    pub(crate) timeout: Duration,
    pub(crate) answer: oneshot::Sender<Result<Option<String>, Error>>,
}

impl Waiting {
    pub(crate) fn new(call: Call, answer: oneshot::Sender<Result<Vec<Decision>, Error>>) -> Self {
        Waiting { call, answer, timeout: Duration::ZERO, locked: false, alone: false }
    }
}

/// Calls in the order in which they came.
pub(crate) struct Queue {
    jobs: VecDeque<Job>,
    /// Calls whose rows somebody else holds: they are looked at again after a pause.
    locked: Vec<Waiting>,
    timeout: Duration,
}

/// What goes to the server as one statement.
pub(crate) enum Next {
    Batch(Vec<Waiting>),
    Run(Running),
}

/// What came of it.
pub(crate) enum Done {
    Batch(Vec<Waiting>, Result<Option<String>, Failure>),
    Run(Running, Result<Option<String>, Failure>),
}

/// An error, and whether the connection is of no more use.
pub(crate) struct Failure {
    verdict: Verdict,
    breaks: bool,
}

impl Queue {
    /// `timeout` is what a statement may take at first.
    pub(crate) fn new(timeout: Duration) -> Queue {
        Queue { jobs: VecDeque::new(), locked: Vec::new(), timeout }
    }

    pub(crate) fn push(&mut self, mut job: Job) {
        if let Job::Ask(waiting) = &mut job {
            waiting.timeout = self.timeout;
        }
        self.jobs.push_back(job);
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
                Job::Ask(waiting) => drop(waiting.answer.send(Err(error.clone()))),
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
                        || (parts + waiting.call.parts.len() <= BATCH && !waiting.alone && !batch[0].alone) =>
                {
                    parts += waiting.call.parts.len();
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

    /// Answers who can be answered, and puts back who is to be asked again. True if the connection is broken.
    pub(crate) fn settle(&mut self, done: Done) -> bool {
        match done {
            Done::Run(running, result) => {
                let breaks = result.as_ref().is_err_and(|failure| failure.breaks);
                let _ = running.answer.send(result.map_err(|failure| failure.verdict.error()));
                breaks
            }
            // Somebody else made one of the keys first.
            Done::Batch(batch, Ok(None)) => {
                self.first(batch);
                false
            }
            Done::Batch(batch, Ok(Some(text))) => {
                self.answer(batch, &text);
                false
            }
            Done::Batch(batch, Err(Failure { verdict, breaks })) => {
                self.failed(batch, verdict);
                breaks
            }
        }
    }

    fn answer(&mut self, batch: Vec<Waiting>, text: &str) {
        let mut answer = Answer::parse(text);
        for mut waiting in batch {
            let outcome = match &mut answer {
                Ok(answer) => answer.next(&waiting.call),
                Err(error) => Outcome::Failed(error.clone()),
            };
            match outcome {
                Outcome::Decided(decisions) => drop(waiting.answer.send(Ok(decisions))),
                Outcome::Failed(error) => drop(waiting.answer.send(Err(error))),
                Outcome::Locked => {
                    waiting.locked = true;
                    self.locked.push(waiting);
                }
            }
        }
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
                for waiting in batch {
                    let _ = waiting.answer.send(Err(error.clone()));
                }
            }
        }
    }
}

impl Next {
    pub(crate) async fn execute(self, connection: &Connection, schema: &str) -> Done {
        match self {
            Next::Run(running) => {
                let sql = limited(running.timeout, running.timeout, &running.statement);
                let result = send(connection, running.timeout, &sql).await;
                Done::Run(running, result)
            }
            Next::Batch(batch) => {
                let skip = batch.iter().any(|waiting| waiting.locked);
                let statement = command::statement(schema, skip, batch.iter().map(|w| &w.call));
                let timeout = batch.iter().map(|w| w.timeout).max().unwrap_or(LONGEST);
                // So that there is time left to ask for the others, when somebody else holds a row.
                let result = send(connection, timeout, &limited(timeout, timeout / 2, &statement)).await;
                Done::Batch(batch, result)
            }
        }
    }
}

async fn send(connection: &Connection, timeout: Duration, sql: &str) -> Result<Option<String>, Failure> {
    match tokio::time::timeout(timeout + SILENCE, connection.value(sql)).await {
        Ok(result) => result.map_err(|error| Failure {
            verdict: failure::of_statement(&error),
            breaks: failure::breaks(&error),
        }),
        Err(_) => {
            let error = Error::lost(format!("silence for {:?}", timeout + SILENCE));
            Err(Failure { verdict: Verdict::Lost(error), breaks: true })
        }
    }
}
