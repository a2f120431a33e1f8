//! Between callers and the connection: what waits at the same time becomes one statement.
//!
//! A task looks after the connection and makes it again when it breaks. While there is none,
//! callers are told why at once. While a statement is under way, whatever comes waits for the next
//! one, so that batches grow with the load and a lone caller waits for nobody.

use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;
use tollgate::{Decision, Error};

use crate::command::Call;
use crate::connection::{Connection, Server};
use crate::queue::{Job, Queue, Running, Waiting};

/// Calls that wait to be taken up; more wait for room.
const BUFFER: usize = 4096;

/// The first pause after an attempt to connect has failed, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long to wait before rows that somebody else holds are looked at again.
const LOCKED_PAUSE: Duration = Duration::from_millis(2);

/// The way to the task.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    jobs: mpsc::Sender<Job>,
    link: watch::Receiver<Link>,
}

type Answering<T> = oneshot::Sender<Result<T, Error>>;
type Answered<T> = oneshot::Receiver<Result<T, Error>>;

/// The same for who does not keep the task alive.
#[derive(Clone, Debug)]
pub(crate) struct WeakWorker {
    jobs: mpsc::WeakSender<Job>,
    link: watch::Receiver<Link>,
}

/// What is known of the server.
#[derive(Clone, Debug)]
enum Link {
    /// Connected, or an attempt is under way, the first or after a connection that worked.
    Up,
    Down(Error),
}

impl Worker {
    /// Starts the task, which connects when there is something to do. `timeout` is what a statement
    /// may take at first.
    pub(crate) fn start(server: Server, timeout: Duration, runtime: &Handle) -> Worker {
        let (jobs, inbox) = mpsc::channel(BUFFER);
        let (link, seen) = watch::channel(Link::Up);
        runtime.spawn(Task { server, inbox, queue: Queue::new(timeout), link }.run());
        Worker { jobs, link: seen }
    }

    pub(crate) fn downgrade(&self) -> WeakWorker {
        WeakWorker { jobs: self.jobs.downgrade(), link: self.link.clone() }
    }

    /// Whether it is not known to be without a connection.
    pub(crate) fn is_up(&self) -> bool {
        matches!(&*self.link.borrow(), Link::Up)
    }

    /// Hands in a job. Gives the way to its answer.
    async fn send<T>(&self, job: impl FnOnce(Answering<T>) -> Job) -> Result<Answered<T>, Error> {
        if let Link::Down(error) = &*self.link.borrow() {
            return Err(error.clone());
        }
        let (answer, answered) = oneshot::channel();
        let sent = self.jobs.send(job(answer)).await;
        sent.map_err(|_| Error::unavailable("the runtime of the store has ended"))?;
        Ok(answered)
    }

    /// Asks all calls in one go; their decisions in order.
    pub(crate) async fn ask(&self, calls: Vec<Call>) -> Result<Vec<Decision>, Error> {
        received(self.send(|answer| Job::Ask(Waiting::new(calls, answer))).await).await
    }

    /// Runs a statement by itself; gives the first value of its first row.
    pub(crate) async fn run(
        &self,
        statement: String,
        timeout: Duration,
    ) -> Result<Option<String>, Error> {
        received(self.send(|answer| Job::Run(Running { statement, timeout, answer })).await).await
    }
}

async fn received<T>(answered: Result<Answered<T>, Error>) -> Result<T, Error> {
    let ended = |_| Err(Error::lost("the runtime of the store has ended"));
    answered?.await.unwrap_or_else(ended)
}

impl WeakWorker {
    /// `None` when nobody holds the store any more.
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
    /// Connects, serves until the connection is broken, and connects again, for as long as somebody
    /// holds the store.
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
                    // Another connection helps nobody while no statement succeeds.
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

    /// Tells all callers the error until it is time to connect again: later each time.
    async fn wait(&mut self, error: &Error, pause: &mut Duration) {
        self.link.send_replace(Link::Down(error.clone()));
        while let Ok(job) = self.inbox.try_recv() {
            self.queue.push(job);
        }
        self.queue.fail_all(error);
        if !self.inbox.is_closed() {
            tokio::time::sleep(*pause).await;
            *pause = (*pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Until the connection is broken; `None` when nobody holds the store any more.
    async fn serve(&mut self, connection: &Connection) -> Option<()> {
        let mut looks = tokio::time::interval(LOCKED_PAUSE);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ended = pin!(connection.ended());
        loop {
            while !self.queue.is_ready() {
                tokio::select! {
                    () = &mut ended => return Some(()),
                    job = self.inbox.recv() => self.queue.push(job?),
                    _ = looks.tick(), if self.queue.is_locked() => self.queue.unlock(),
                }
            }
            // However much there is to do.
            tokio::select! {
                biased;
                _ = looks.tick(), if self.queue.is_locked() => self.queue.unlock(),
                () = std::future::ready(()) => {}
            }
            // Others that are ready go first, so that they come along.
            tokio::task::yield_now().await;
            while let Ok(job) = self.inbox.try_recv() {
                self.queue.push(job);
            }
            let Some(next) = self.queue.next() else { continue };
            let Server { schema, connect_timeout, .. } = &self.server;
            let done = next.execute(connection, schema, *connect_timeout).await;
            if self.queue.settle(done) {
                return Some(());
            }
        }
    }
}
