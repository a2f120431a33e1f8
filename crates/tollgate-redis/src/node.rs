//! One server, and the connection to it, which is made again whenever it breaks.
//!
//! A task maintains the connection, and callers only use it. While there is none, callers
//! immediately get the reason: no call waits for a server that is known to be away.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use redis::aio::PubSub;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::watch;
use tollgate::Error;

use crate::connection::Connection;
use crate::failure;
use crate::script;
use crate::target::Finder;

/// Requests that wait to be written. Further callers wait for room.
const BUFFER: usize = 4096;

/// The first pause after an attempt to connect has failed, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often a call waits for another one to load the script before it sends the text itself.
const SCRIPT_WAITS: usize = 3;

/// How long a suspected connection may take to answer a ping.
const PING: Duration = Duration::from_secs(1);

/// A server.
#[derive(Debug)]
pub(crate) struct Node {
    finder: Finder,
    connect_timeout: Duration,
    link: watch::Sender<Link>,
    supervised: Mutex<bool>,
    script_loads: watch::Sender<ScriptLoads>,
    runtime: tokio::runtime::Handle,
}

#[derive(Debug, Default)]
struct ScriptLoads {
    /// Whether a caller is sending the text of the script now.
    under_way: bool,
    /// The number of callers that have sent it, or have given up.
    ended: u64,
}

/// Held while the text of the script is sent. Dropping it wakes the waiting callers, also if this
/// caller gave up.
struct LoadingScript<'a>(&'a Node);

impl Drop for LoadingScript<'_> {
    fn drop(&mut self) {
        self.0.script_loads.send_modify(|loads| {
            loads.under_way = false;
            loads.ended += 1;
        });
    }
}

#[derive(Clone)]
enum Link {
    /// An attempt is in progress: the first, or one after a connection that worked.
    Connecting,
    Up(Connection, u64),
    Down(Error),
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Link::Connecting => f.write_str("Connecting"),
            Link::Up(_, number) => write!(f, "Up({number})"),
            Link::Down(error) => write!(f, "Down({error})"),
        }
    }
}

impl Node {
    pub(crate) fn new(
        finder: Finder,
        connect_timeout: Duration,
        runtime: tokio::runtime::Handle,
    ) -> Arc<Node> {
        Arc::new(Node {
            finder,
            connect_timeout,
            link: watch::Sender::new(Link::Connecting),
            supervised: Mutex::new(false),
            script_loads: watch::Sender::default(),
            runtime,
        })
    }

    /// The connection, as soon as the first attempt to make it has ended.
    async fn connection(self: &Arc<Self>) -> Result<(Connection, u64), Error> {
        if let Link::Up(connection, number) = &*self.link.borrow() {
            return Ok((connection.clone(), *number));
        }
        self.supervise();
        let mut link = self.link.subscribe();
        let settled = link.wait_for(|link| !matches!(link, Link::Connecting)).await;
        match settled.as_deref() {
            Ok(Link::Up(connection, number)) => Ok((connection.clone(), *number)),
            Ok(Link::Down(error)) => Err(error.clone()),
            Ok(Link::Connecting) | Err(_) => Err(Error::unavailable("not connected")),
        }
    }

    /// Waits until the first attempt to connect has ended, whatever came of it.
    pub(crate) async fn connected(self: &Arc<Self>) {
        if !matches!(&*self.link.borrow(), Link::Up(..)) {
            let _ = self.connection().await;
        }
    }

    /// Sends a command, preceded by `ASKING` in the same write if required. The outer error means
    /// that the command was not sent.
    ///
    /// A server that has just started, or whose scripts were flushed, does not have the script: it
    /// executed nothing. Then one caller sends the text of the script, and all others wait for that
    /// and send their commands again. So the text is sent once, however many calls are in flight.
    pub(crate) async fn send(
        self: &Arc<Self>,
        cmd: &Cmd,
        asking: bool,
    ) -> Result<RedisResult<Value>, Error> {
        for _ in 0..SCRIPT_WAITS {
            let ended = self.script_loads.borrow().ended;
            let reply = self.send_once(cmd, asking).await;
            if !matches!(&reply, Ok(Err(error)) if failure::is_no_script(error)) {
                return reply;
            }
            if let Some(_loading) = self.load_script(ended) {
                return self.send_once(&script::with_text(cmd), asking).await;
            }
            // This cannot fail, because the node owns the sender.
            let _ = self.script_loads.subscribe().wait_for(|loads| loads.ended != ended).await;
        }
        self.send_once(&script::with_text(cmd), asking).await
    }

    /// Makes this caller the one that sends the text of the script, unless another does or has done
    /// so since `ended` was read.
    fn load_script(&self, ended: u64) -> Option<LoadingScript<'_>> {
        let begins = self.script_loads.send_if_modified(|loads| {
            let begins = !loads.under_way && loads.ended == ended;
            loads.under_way |= begins;
            begins
        });
        begins.then_some(LoadingScript(self))
    }

    async fn send_once(
        self: &Arc<Self>,
        cmd: &Cmd,
        asking: bool,
    ) -> Result<RedisResult<Value>, Error> {
        let (mut connection, number) = self.connection().await?;
        let result = if asking {
            let mut pipeline = Pipeline::with_capacity(2);
            pipeline.add_command(redis::cmd("ASKING")).add_command(cmd.clone());
            let last = |mut replies: Vec<Value>| replies.pop().unwrap_or(Value::Nil);
            connection.send_two(&pipeline).await.map(last)
        } else {
            connection.send(cmd).await
        };
        let result = result.and_then(Value::extract_error);
        self.look_at(number, result.as_ref().err());
        Ok(result)
    }

    /// The same for commands that decide nothing and have no caller's deadline.
    pub(crate) async fn send_in_time(
        self: &Arc<Self>,
        cmd: &Cmd,
    ) -> Result<RedisResult<Value>, Error> {
        self.in_time(self.send(cmd, false)).await
    }

    /// A call that may take as long as connecting may.
    pub(crate) async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let limited = {
            let _on_it = self.runtime.enter();
            tokio::time::timeout(self.connect_timeout, call)
        };
        let late = |_| Error::lost(format!("{}: none in {:?}", self.finder, self.connect_timeout));
        limited.await.map_err(late)?
    }

    /// Opens a connection for pub/sub.
    pub(crate) async fn open_pubsub(&self) -> Result<PubSub, Error> {
        let open = async {
            let client = self.finder.client(self.connect_timeout).await?;
            let failed = |error| failure::of_connect(&self.finder.to_string(), &error);
            client.get_async_pubsub().await.map_err(failed)
        };
        self.in_time(open).await
    }

    fn look_at(&self, number: u64, error: Option<&RedisError>) {
        if error.is_some_and(failure::breaks) {
            self.is_broken(number);
        }
    }

    /// Gives up the connection of that number, if it is still in use. The task makes another.
    fn is_broken(&self, number: u64) {
        self.link.send_if_modified(|link| {
            let current = matches!(link, Link::Up(_, current) if *current == number);
            if current {
                *link = Link::Connecting;
            }
            current
        });
    }

    /// Tests a connection that seems to work.
    pub(crate) async fn suspect(self: &Arc<Self>) {
        let Link::Up(mut connection, number) = self.link.borrow().clone() else { return };
        let ping = redis::cmd("PING");
        let answer = tokio::time::timeout(PING, connection.send(&ping)).await;
        if !matches!(answer, Ok(Ok(_))) {
            tracing::warn!(server = %self.finder, "no answer to a ping: reconnecting");
            connection.close();
            self.is_broken(number);
        }
    }

    /// Starts the task that maintains the connection, once.
    fn supervise(self: &Arc<Self>) {
        let mut supervised = self.supervised.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *supervised, true) {
            self.runtime.spawn(supervise(Arc::downgrade(self)));
        }
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let connect = async {
            let client: Client = self.finder.client(self.connect_timeout).await?;
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(self.connect_timeout))
                // The guard has the deadlines.
                .set_response_timeout(None)
                .set_pipeline_buffer_size(BUFFER);
            let connection = Connection::open(&client, config).await;
            connection.map_err(|error| failure::of_connect(&self.finder.to_string(), &error))
        };
        match tokio::time::timeout(self.connect_timeout, connect).await {
            Ok(result) => result,
            Err(_) => Err(Error::unavailable(format!(
                "{}: not connected within {:?}",
                self.finder, self.connect_timeout
            ))),
        }
    }
}

/// Connects, waits until the connection breaks, and connects again, until the node is dropped.
async fn supervise(node: Weak<Node>) {
    let mut pause = FIRST_PAUSE;
    for number in 0.. {
        let Some(strong) = node.upgrade() else { return };
        match strong.connect().await {
            Ok(connection) => {
                tracing::debug!(server = %strong.finder, "connected");
                strong.link.send_replace(Link::Up(connection, number));
                pause = FIRST_PAUSE;
                let mut link = strong.link.subscribe();
                let server = strong.finder.to_string();
                drop(strong);
                // An error means that the node was dropped.
                if link.wait_for(|link| !matches!(link, Link::Up(..))).await.is_err() {
                    return;
                }
                tracing::info!(server, "connection lost");
            }
            Err(error) => {
                tracing::debug!(%error, "cannot connect");
                strong.link.send_replace(Link::Down(error));
                drop(strong);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}
