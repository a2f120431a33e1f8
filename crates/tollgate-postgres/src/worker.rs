//! A task for each connection, which sends the calls that wait at the same time as one statement.
//!
//! The task connects, and connects again when the connection breaks. While there is no connection,
//! calls fail immediately with the reason. Calls that arrive while the next statement may not be
//! sent yet (see [`pace`](crate::pace)) wait for it, so that batches grow with the load and a single
//! caller does not wait for others.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;
use tollgate::{Clock, Error, Outcome, SystemClock, Timestamp};

use crate::command::Call;
use crate::connection::{Connection, Server};
use crate::queue::{Job, Queue, Reply, Request, Statement};

/// Jobs in the channel to the task. Further callers wait for room.
const BUFFER: usize = 4096;

/// The first pause after an attempt to connect has failed, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The pause before requests are sent again whose rows another session holds.
const LOCKED_PAUSE: Duration = Duration::from_millis(2);

/// A handle to the task, which ends when the last handle is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    jobs: mpsc::Sender<Job>,
    link: watch::Receiver<Link>,
}

/// A handle that does not keep the task alive.
#[derive(Clone, Debug)]
pub(crate) struct WeakWorker {
    jobs: mpsc::WeakSender<Job>,
    link: watch::Receiver<Link>,
}

/// The state of the connection.
#[derive(Clone, Debug)]
enum Link {
    /// Connected, or an attempt is under way, the first or after a connection that worked.
    Up,
    Down(Error),
}

impl Worker {
    /// Starts the task, which connects when the first job arrives. `timeout` is how long a
    /// statement may take at first.
    pub(crate) fn start(server: Server, timeout: Duration, runtime: &Handle) -> Worker {
        let (jobs, inbox) = mpsc::channel(BUFFER);
        let (link, link_seen) = watch::channel(Link::Up);
        runtime.spawn(Task { server, inbox, queue: Queue::new(timeout), link }.run());
        Worker { jobs, link: link_seen }
    }

    pub(crate) fn downgrade(&self) -> WeakWorker {
        WeakWorker { jobs: self.jobs.downgrade(), link: self.link.clone() }
    }

    /// False if the last attempt to connect failed.
    pub(crate) fn is_up(&self) -> bool {
        matches!(&*self.link.borrow(), Link::Up)
    }

    /// Hands a job to the task and waits for its reply.
    async fn send<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, Error> {
        if let Link::Down(error) = &*self.link.borrow() {
            return Err(error.clone());
        }
        let (reply, replied) = oneshot::channel();
        let sent = self.jobs.send(job(reply)).await;
        sent.map_err(|_| Error::unavailable("the runtime of the store has ended"))?;
        let ended = |_| Err(Error::lost("the runtime of the store has ended"));
        replied.await.unwrap_or_else(ended)
    }

    /// Decides all calls in their order, for a caller who waits until the deadline.
    pub(crate) async fn decide(
        &self,
        calls: Vec<Call>,
        deadline: Timestamp,
    ) -> Result<Vec<Outcome>, Error> {
        self.send(|reply| Job::Decide(Request::new(calls, deadline, reply))).await
    }

    /// Runs a statement that decides nothing. Returns the first value of its first row.
    pub(crate) async fn run(
        &self,
        sql: String,
        timeout: Duration,
    ) -> Result<Option<String>, Error> {
        self.send(|reply| Job::Run(Statement { sql, timeout, reply })).await
    }
}

impl WeakWorker {
    /// `None` when the store has been dropped.
    pub(crate) fn upgrade(&self) -> Option<Worker> {
        Some(Worker { jobs: self.jobs.upgrade()?, link: self.link.clone() })
    }
}

struct Task {
    server: Server,
    inbox: mpsc::Receiver<Job>,
    queue: Queue,
    link: watch::Sender<Link>,
}

impl Task {
    /// Connects, serves until the connection is broken, and connects again, until the store is
    /// dropped.
    async fn run(mut self) {
        let Some(first) = self.inbox.recv().await else { return };
        self.queue.push(first);
        let mut pause = FIRST_PAUSE;
        loop {
            match self.server.connect().await {
                Ok(connection) => {
                    tracing::debug!(server = ?self.server.target, "connected");
                    self.link.send_replace(Link::Up);
                    let answered = self.queue.answered();
                    if self.serve(&connection).await.is_none() {
                        return;
                    }
                    tracing::info!(server = ?self.server.target, "connection lost");
                    if self.queue.answered() > answered {
                        pause = FIRST_PAUSE;
                        continue;
                    }
                    // Another connection does not help while no statement succeeds.
                    let ended = || Error::unavailable("the connection ended before an answer");
                    let error = self.queue.take_refusal().unwrap_or_else(ended);
                    self.wait(&error, &mut pause).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot connect");
                    self.wait(&error, &mut pause).await;
                }
            }
            if self.inbox.is_closed() && self.inbox.is_empty() {
                return;
            }
        }
    }

    /// Fails all jobs with the error until it is time to connect again: later each time.
    async fn wait(&mut self, error: &Error, pause: &mut Duration) {
        self.link.send_replace(Link::Down(error.clone()));
        self.receive();
        self.queue.fail_all(error);
        if !self.inbox.is_closed() {
            tokio::time::sleep(*pause).await;
            *pause = (*pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Moves all jobs from the channel to the queue.
    fn receive(&mut self) {
        while let Ok(job) = self.inbox.try_recv() {
            self.queue.push(job);
        }
    }

    /// Sends statements until the connection is broken. `None` when the store has been dropped.
    async fn serve(&mut self, connection: &Connection) -> Option<()> {
        let schema = self.server.schema.clone();
        let silence = self.server.connect_timeout;
        let clock = SystemClock::new();
        let mut retries = tokio::time::interval(LOCKED_PAUSE);
        retries.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut connection_ended = pin!(connection.ended());
        let mut under_way = FuturesUnordered::new();
        loop {
            // Other tasks that are ready run first, so that their calls go with this batch.
            tokio::task::yield_now().await;
            self.receive();
            let now = clock.now();
            if let Some(next) = self.queue.next(now) {
                let statement = next.execute(connection, &schema, silence);
                under_way.push(async move { (now, statement.await) });
            }
            // Jobs that cannot be sent yet stay in the channel: each of them would wake the task.
            let pause = self.queue.next_at().map(|at| at.since(clock.now()));
            let may_send = pause.is_some_and(|pause| pause.is_zero());
            tokio::select! {
                () = &mut connection_ended => break,
                Some((sent, ended)) = under_way.next(), if !under_way.is_empty() => {
                    if self.queue.settle(ended, sent, clock.now()) {
                        break;
                    }
                }
                job = self.inbox.recv(), if may_send => self.queue.push(job?),
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() && !may_send => {}
                _ = retries.tick(), if self.queue.has_locked() => self.queue.retry_locked(),
            }
        }
        // Statements under way end soon: by an answer, the end of the connection or silence.
        while let Some((sent, ended)) = under_way.next().await {
            self.queue.settle(ended, sent, clock.now());
        }
        Some(())
    }
}
