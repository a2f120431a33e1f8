//! The calls that wait for a connection: which of them become its next statement, and which answers
//! their callers get. It is pure except for the reply channels: the time is an argument.
//!
//! Requests are sent in the order of their arrival, with one exception: a request waits while a
//! statement under way, or a request that waits before it, has one of its keys. So hits on one key
//! are decided in order even when a statement has to be sent again.
//!
//! A request that was sent can be charged though its caller has left. Therefore a request whose
//! answer would probably come after its deadline is not sent.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_postgres::SimpleQueryRow;
use tollgate::{Error, ErrorKind, Outcome, Timestamp};

use crate::command::{self, Answer, Call, CallResult};
use crate::connection::{Connection, first_value, limited};
use crate::failure::{self, RollbackCause, Verdict};
use crate::hits::Hits;
use crate::pace::{DEPTH, Pace};

/// The timeout of a statement doubles with each retry, up to this.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Parts in one statement: a longer one would hold up others.
pub(crate) const BATCH: usize = 256;

/// Requests that may wait for keys under way. Further ones wait in the channel.
const MAX_BLOCKED: usize = 4096;

pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

#[derive(Debug)]
pub(crate) enum Job {
    Decide(Request),
    Run(Statement),
}

/// The calls of one caller. They are never divided among statements that run at the same time, so
/// that they are decided in their order.
#[derive(Debug)]
pub(crate) struct Request {
    calls: Vec<Call>,
    reply: Reply<Vec<Outcome>>,
    /// The decisions known so far, for each call.
    decided: Vec<Option<Vec<Outcome>>>,
    /// When its caller stops waiting.
    deadline: Timestamp,
    /// How long its statement may take.
    timeout: Duration,
    /// Another session may hold one of its rows: its statement must not wait for rows.
    locked: bool,
    /// It has calls that are not plain hits, or hits of which only some may be allowed.
    not_plain: bool,
    /// It may be the one that made a batch fail: it is sent in a statement of its own.
    alone: bool,
}

/// A statement that decides nothing, and its caller.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) timeout: Duration,
    pub(crate) reply: Reply<Option<String>>,
}

impl Request {
    pub(crate) fn new(calls: Vec<Call>, deadline: Timestamp, reply: Reply<Vec<Outcome>>) -> Self {
        let decided = calls.iter().map(|_| None).collect();
        Request {
            calls,
            reply,
            decided,
            deadline,
            timeout: Duration::ZERO,
            locked: false,
            not_plain: false,
            alone: false,
        }
    }

    /// The calls that are not decided yet.
    fn open(&self) -> impl Iterator<Item = &Call> + Clone {
        self.calls.iter().zip(&self.decided).filter(|(_, d)| d.is_none()).map(|(call, _)| call)
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.calls.iter().flat_map(|call| &call.parts).map(|part| &part.key[..])
    }

    fn parts(&self) -> usize {
        self.calls.iter().map(|call| call.parts.len()).sum()
    }

    /// Takes the results of its open calls. Returns itself if some of them are still open.
    fn settle(mut self, answer: &mut Answer) -> Option<Request> {
        let open = self.calls.iter().zip(&mut self.decided).filter(|(_, d)| d.is_none());
        let mut failed = None;
        for (call, decided) in open {
            match answer.next(call) {
                CallResult::Decided(decisions) => *decided = Some(decisions),
                CallResult::Failed(error) => failed = Some(error),
                CallResult::Locked => self.locked = true,
                CallResult::NotPlain => self.not_plain = true,
            }
        }
        if let Some(error) = failed {
            self.fail(error);
            return None;
        }
        if self.decided.iter().any(Option::is_none) {
            return Some(self);
        }
        let _ = self.reply.send(Ok(self.decided.into_iter().flatten().flatten().collect()));
        None
    }

    fn fail(self, error: Error) {
        // "Not executed" must be true of all its calls.
        let executed = self.decided.iter().any(Option::is_some);
        let error = match error.kind() {
            ErrorKind::Unavailable if executed => {
                Error::lost(format!("some keys were decided, others not: {}", error.detail()))
            }
            _ => error,
        };
        let _ = self.reply.send(Err(error));
    }
}

/// The jobs of one connection.
pub(crate) struct Queue {
    /// The jobs that wait, in the order of their arrival.
    waiting: VecDeque<Job>,
    /// Requests that wait until a statement under way ends, because it may have one of their keys.
    blocked: VecDeque<Request>,
    /// Hashes of the keys under way, and of those of blocked requests. Two keys with the same hash
    /// only wait for each other.
    keys_under_way: HashSet<u64>,
    keys_blocked: HashSet<u64>,
    hasher: RandomState,
    /// Requests whose rows another session holds: they are sent again after a pause.
    locked: Vec<Request>,
    timeout: Duration,
    pace: Pace,
    /// Statements that succeeded.
    answered: u64,
    /// The error of the last statement that was refused.
    refusal: Option<Error>,
}

/// The next statement to send.
#[derive(Debug)]
pub(crate) enum Next {
    Batch(Vec<Request>),
    Run(Statement),
}

/// How a statement ended.
pub(crate) enum Ended {
    /// With the hits, if it was a batch of nothing but plain hits.
    Batch(Vec<Request>, Option<Hits>, Result<Vec<SimpleQueryRow>, Failure>),
    Run(Statement, Result<Vec<SimpleQueryRow>, Failure>),
}

impl Ended {
    /// The parts of all calls that the statement decided.
    fn parts(&self) -> usize {
        match self {
            Ended::Batch(batch, ..) => batch.iter().map(Request::parts).sum(),
            Ended::Run(..) => 0,
        }
    }
}

/// An error, and whether the connection can no longer be used.
pub(crate) struct Failure {
    verdict: Verdict,
    breaks: bool,
}

impl Queue {
    /// `timeout` is how long a statement may take at first.
    pub(crate) fn new(timeout: Duration) -> Queue {
        Queue {
            waiting: VecDeque::new(),
            blocked: VecDeque::new(),
            keys_under_way: HashSet::new(),
            keys_blocked: HashSet::new(),
            hasher: RandomState::new(),
            locked: Vec::new(),
            timeout,
            pace: Pace::new(timeout),
            answered: 0,
            refusal: None,
        }
    }

    pub(crate) fn push(&mut self, mut job: Job) {
        if let Job::Decide(request) = &mut job {
            request.timeout = self.timeout;
        }
        self.waiting.push_back(job);
    }

    /// How many statements have succeeded so far.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// Why the last statement was refused, once.
    pub(crate) fn take_refusal(&mut self) -> Option<Error> {
        self.refusal.take()
    }

    pub(crate) fn has_locked(&self) -> bool {
        !self.locked.is_empty()
    }

    /// Queues the requests whose rows were locked, so that they are sent again.
    pub(crate) fn retry_locked(&mut self) {
        let locked = std::mem::take(&mut self.locked);
        self.push_front(locked);
    }

    /// Puts requests before all others, in their order.
    fn push_front(
        &mut self,
        requests: impl IntoIterator<IntoIter: DoubleEndedIterator<Item = Request>>,
    ) {
        for request in requests.into_iter().rev() {
            self.waiting.push_front(Job::Decide(request));
        }
    }

    pub(crate) fn fail_all(&mut self, error: &Error) {
        self.unblock();
        self.retry_locked();
        for job in self.waiting.drain(..) {
            match job {
                Job::Decide(request) => request.fail(error.clone()),
                Job::Run(statement) => drop(statement.reply.send(Err(error.clone()))),
            }
        }
    }

    /// When the next statement may be sent. `None`: not before one under way has ended.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        if self.blocked.len() >= MAX_BLOCKED { None } else { self.pace.next_at() }
    }

    /// The next statement, if one may be sent now: all requests that can go, up to a bound.
    pub(crate) fn next(&mut self, now: Timestamp) -> Option<Next> {
        if self.next_at().is_none_or(|at| at > now) {
            return None;
        }
        let room = self.pace.room(now).min(BATCH);
        // Every call of a batch waits for the whole batch. An idle connection drops no call, so that
        // one slow statement does not stop the others without end.
        let answered_at = if self.pace.is_idle() {
            now
        } else {
            self.pace.answered_at(now, self.waiting.len().min(room))
        };
        let mut batch: Vec<Request> = Vec::new();
        let mut parts = 0;
        while let Some(job) = self.waiting.pop_front() {
            match job {
                Job::Run(statement) if batch.is_empty() => {
                    self.pace.sent(now, 0);
                    return Some(Next::Run(statement));
                }
                Job::Decide(request) if request.reply.is_closed() => {}
                Job::Decide(request) if request.deadline < answered_at => {
                    let left = request.deadline.since(now);
                    let time = answered_at.since(now);
                    request.fail(Error::overloaded(format!(
                        "the deadline is in {left:?}, an answer takes {time:?}"
                    )));
                }
                Job::Decide(request) if self.is_blocked(&request) => self.block(request),
                Job::Decide(request)
                    if (batch.is_empty() && room > 0)
                        || (parts + request.parts() <= room
                            && !request.alone
                            && !batch[0].alone) =>
                {
                    parts += request.parts();
                    batch.push(request);
                }
                job => {
                    self.waiting.push_front(job);
                    break;
                }
            }
        }
        if batch.is_empty() {
            return None;
        }
        let keys = batch.iter().flat_map(Request::keys);
        self.keys_under_way.extend(keys.map(|key| self.hasher.hash_one(key)));
        self.pace.sent(now, parts);
        Some(Next::Batch(batch))
    }

    fn is_blocked(&self, request: &Request) -> bool {
        let is_taken = |key| {
            let hash = self.hasher.hash_one(key);
            self.keys_under_way.contains(&hash) || self.keys_blocked.contains(&hash)
        };
        !self.pace.is_idle() && request.keys().any(is_taken)
    }

    fn block(&mut self, request: Request) {
        self.keys_blocked.extend(request.keys().map(|key| self.hasher.hash_one(key)));
        self.blocked.push_back(request);
    }

    fn unblock(&mut self) {
        self.keys_blocked.clear();
        let blocked = std::mem::take(&mut self.blocked);
        self.push_front(blocked);
    }

    /// Answers the callers of a statement, or queues their requests again. True if the connection is
    /// broken.
    pub(crate) fn settle(&mut self, ended: Ended, sent: Timestamp, now: Timestamp) -> bool {
        let (result, breaks) = match &ended {
            Ended::Batch(_, _, result) | Ended::Run(_, result) => {
                (result, result.as_ref().is_err_and(|failure| failure.breaks))
            }
        };
        if let Err(Failure { verdict: Verdict::Refused(error), .. }) = result {
            self.refusal = Some(error.clone());
        }
        self.answered += u64::from(result.is_ok());
        self.pace.ended(sent, now, ended.parts(), result.is_ok());
        if let Ended::Batch(batch, ..) = &ended {
            for key in batch.iter().flat_map(Request::keys) {
                self.keys_under_way.remove(&self.hasher.hash_one(key));
            }
        }
        self.unblock();
        match ended {
            Ended::Run(statement, result) => {
                let result = result.map(|rows| first_value(&rows));
                let _ = statement.reply.send(result.map_err(|failure| failure.verdict.error()));
            }
            Ended::Batch(batch, hits, Ok(rows)) => self.answer(batch, hits, &rows),
            Ended::Batch(batch, _, Err(failure)) => self.failed(batch, failure.verdict),
        }
        breaks
    }

    fn answer(&mut self, batch: Vec<Request>, hits: Option<Hits>, rows: &[SimpleQueryRow]) {
        let answer = match hits {
            Some(hits) => Some(Answer::Hits(hits.decisions(rows).into_iter())),
            None => Answer::steps(rows),
        };
        // Another session inserted one of the keys first.
        let Some(mut answer) = answer else { return self.push_front(batch) };
        let open = batch.into_iter().filter_map(|request| request.settle(&mut answer));
        let (locked, open): (Vec<_>, Vec<_>) = open.partition(|request| request.locked);
        self.locked.extend(locked);
        self.push_front(open);
    }

    fn failed(&mut self, mut batch: Vec<Request>, verdict: Verdict) {
        match verdict {
            Verdict::Retry(cause, text) => {
                tracing::debug!(text, "statement was rolled back, sending it again");
                for request in &mut batch {
                    request.timeout = (request.timeout * 2).min(LONGEST_TIMEOUT);
                    request.locked |= cause == RollbackCause::Lock;
                }
                self.push_front(batch);
            }
            Verdict::OneCallFailed(_) if batch.len() > 1 => {
                batch.iter_mut().for_each(|request| request.alone = true);
                self.push_front(batch);
            }
            Verdict::OneCallFailed(error) | Verdict::Refused(error) | Verdict::Lost(error) => {
                batch.into_iter().for_each(|request| request.fail(error.clone()));
            }
        }
    }
}

impl Next {
    /// Sends the statement and waits for its answer. `silence` is how long the answer may take
    /// beyond the time that the server has for it and for the statements before it. After that the
    /// connection is dead.
    pub(crate) async fn execute(
        self,
        connection: &Connection,
        schema: &str,
        silence: Duration,
    ) -> Ended {
        match self {
            Next::Run(statement) => {
                let Statement { sql, timeout, .. } = &statement;
                let sql = limited(*timeout, *timeout, sql);
                let result =
                    send(connection, timeout.saturating_mul(DEPTH).saturating_add(silence), &sql)
                        .await;
                Ended::Run(statement, result)
            }
            Next::Batch(batch) => {
                let skip_locked = batch.iter().any(|request| request.locked);
                let calls = || batch.iter().flat_map(Request::open);
                let is_plain = !batch.iter().any(|request| request.locked || request.not_plain);
                let hits = is_plain.then(|| Hits::of(schema, calls())).flatten();
                let statement = match &hits {
                    Some(hits) => hits.statement(),
                    None => &command::statement(schema, skip_locked, calls()),
                };
                let timeout = batch.iter().map(|r| r.timeout).max().unwrap_or(LONGEST_TIMEOUT);
                // Half for locks, so that there is time left to send the other calls again when
                // another session holds a row.
                let sql = limited(timeout, timeout / 2, statement);
                let result =
                    send(connection, timeout.saturating_mul(DEPTH).saturating_add(silence), &sql)
                        .await;
                Ended::Batch(batch, hits, result)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate::algorithm::Op;
    use tollgate::{Clock, Limit, SystemClock};

    use super::*;
    use crate::command::{Part, Rule};

    type Replied = oneshot::Receiver<Result<Vec<Outcome>, Error>>;

    const MILLI: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    /// A queue in front of a server that answers after 20 ms.
    fn queue() -> Queue {
        let mut queue = Queue::new(100 * MILLI);
        let _reply = push(&mut queue, &["first"], 1_000);
        let first = batch(&mut queue, 0);
        succeed(&mut queue, first);
        queue
    }

    fn push(queue: &mut Queue, keys: &[&str], deadline: u64) -> Replied {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let rule = Arc::new(Rule::new(&Limit::per_second(5).build().unwrap(), &clock));
        let part = |key: &&str| Part {
            key: key.as_bytes().to_vec(),
            rule: Arc::clone(&rule),
            op: Op::Hit(1),
        };
        let call = |key| Call { parts: vec![part(key)], at: None };
        let (reply, replied) = oneshot::channel();
        let calls = keys.iter().map(call).collect();
        queue.push(Job::Decide(Request::new(calls, at(deadline), reply)));
        replied
    }

    /// The requests that are sent at that time.
    fn batch(queue: &mut Queue, millis: u64) -> Vec<Request> {
        match queue.next(at(millis)) {
            Some(Next::Batch(batch)) => batch,
            other => panic!("{other:?} instead of a batch"),
        }
    }

    fn keys(batch: &[Request]) -> Vec<&str> {
        batch.iter().flat_map(Request::keys).map(|key| std::str::from_utf8(key).unwrap()).collect()
    }

    fn succeed(queue: &mut Queue, batch: Vec<Request>) {
        assert!(!queue.settle(Ended::Batch(batch, None, Ok(Vec::new())), at(0), at(20)));
    }

    fn roll_back(queue: &mut Queue, batch: Vec<Request>) {
        let verdict = Verdict::Retry(RollbackCause::Conflict, "rolled back".into());
        let failure = Failure { verdict, breaks: false };
        assert!(!queue.settle(Ended::Batch(batch, None, Err(failure)), at(0), at(20)));
    }

    #[test]
    fn a_request_that_cannot_be_answered_in_time_is_not_sent() {
        let mut queue = queue();
        let _replies = [push(&mut queue, &["under way"], 200)];
        let under_way = batch(&mut queue, 100);
        let mut late = push(&mut queue, &["late"], 124);
        let mut in_time = push(&mut queue, &["in time"], 126);
        let sent = batch(&mut queue, 105);
        assert_eq!(keys(&sent), ["in time"]);
        let error = late.try_recv().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "surely not executed: {error}");
        assert!(in_time.try_recv().is_err(), "no reply yet");
        succeed(&mut queue, under_way);
    }

    #[test]
    fn an_idle_connection_sends_even_a_call_that_would_probably_be_late() {
        let mut queue = queue();
        let _reply = push(&mut queue, &["key"], 110);
        assert_eq!(keys(&batch(&mut queue, 100)), ["key"]);
    }

    #[test]
    fn a_request_whose_caller_has_left_is_not_sent() {
        let mut queue = queue();
        drop(push(&mut queue, &["left"], 200));
        let _reply = push(&mut queue, &["waits"], 200);
        assert_eq!(keys(&batch(&mut queue, 100)), ["waits"]);
    }

    #[test]
    fn the_next_statement_is_sent_before_the_answer_to_the_last_one() {
        let mut queue = queue();
        let replies = ["a", "b", "c"].map(|key| {
            let reply = push(&mut queue, &[key], 500);
            (reply, queue.next(at(100)).is_some())
        });
        assert_eq!(replies.each_ref().map(|(_, sent)| *sent), [true, false, false]);
        assert_eq!(queue.next_at(), Some(at(105)));
        assert_eq!(keys(&batch(&mut queue, 105)), ["b", "c"], "they waited and go together");
    }

    #[test]
    fn requests_on_one_key_are_sent_in_order_even_when_a_statement_is_sent_again() {
        let mut queue = queue();
        let mut replies = vec![push(&mut queue, &["a"], 500)];
        let first = batch(&mut queue, 100);
        // The second waits for the first, and the third for the second.
        for keys in [&["a", "b"][..], &["b"], &["c"]] {
            replies.push(push(&mut queue, keys, 500));
        }
        let other = batch(&mut queue, 110);
        assert_eq!(keys(&other), ["c"]);
        roll_back(&mut queue, first);
        replies.push(push(&mut queue, &["a"], 500));
        assert_eq!(keys(&batch(&mut queue, 120)), ["a", "a", "b", "b", "a"]);
        replies.push(push(&mut queue, &["c"], 500));
        assert!(queue.next(at(130)).is_none(), "c is still under way");
        succeed(&mut queue, other);
        assert_eq!(keys(&batch(&mut queue, 130)), ["c"]);
    }
}
