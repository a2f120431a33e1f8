//! One server, and the connection to it, which is made again whenever it breaks.
//!
//! A task maintains the connection: it connects, reads and writes until that fails, and connects
//! again. While there is no connection, callers immediately get the reason: no call waits for a
//! server that is known to be away.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tollgate::Error;
use tollgate_remote::{Login, Tokio};

use crate::command;
use crate::connection::{Connection, Pending};
use crate::reply::Reply;
use crate::target::Address;

/// The first pause after an attempt to connect has failed, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a suspected connection may take to answer.
const PING: Duration = Duration::from_secs(1);

/// How often the server is asked whether it has evicted items.
const LOOK: Duration = Duration::from_secs(10);

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) way: Way,
    link: watch::Receiver<Link>,
    task: AbortHandle,
    runtime: Tokio,
}

/// How to connect to the server.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) address: Address,
    pub(crate) login: Option<Login>,
    pub(crate) connect_timeout: Duration,
}

#[derive(Clone, Debug)]
enum Link {
    /// An attempt is in progress: the first, or one after a connection that worked.
    Connecting,
    Up(Arc<Connection>),
    Down(Error),
}

type Stream = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) fn new(way: Way, runtime: &Tokio) -> Server {
        let (sender, link) = watch::channel(Link::Connecting);
        let task = runtime.spawn(look_after(way.clone(), sender)).abort_handle();
        Server { way, link, task, runtime: runtime.clone() }
    }

    /// The connection, as soon as an attempt to make it has ended.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, Error> {
        match &*self.link.borrow() {
            Link::Up(connection) => return Ok(Arc::clone(connection)),
            Link::Down(error) => return Err(error.clone()),
            Link::Connecting => {}
        }
        let mut link = self.link.clone();
        let settled = link.wait_for(|link| !matches!(link, Link::Connecting)).await;
        match settled.as_deref() {
            Ok(Link::Up(connection)) => Ok(Arc::clone(connection)),
            Ok(Link::Down(error)) => Err(error.clone()),
            Ok(Link::Connecting) | Err(_) => Err(Error::unavailable("not connected")),
        }
    }

    /// Checks whether the server answers.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        let [pending] = self.connection().await?.send([&command::nothing])?;
        match answer(pending).await? {
            Reply::Heard => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Gives the connection up if it does not answer.
    pub(crate) fn suspect(&self) {
        let Link::Up(connection) = self.link.borrow().clone() else { return };
        let address = self.way.address.clone();
        self.runtime.spawn(async move {
            let Ok([pending]) = connection.send([&command::nothing]) else { return };
            if !matches!(tokio::time::timeout(PING, answer(pending)).await, Ok(Ok(_))) {
                tracing::warn!(server = %address, "no answer: reconnecting");
                connection.end();
            }
        });
    }
}

pub(crate) async fn answer(pending: Pending) -> Result<Reply, Error> {
    let gone = |_| Err(Error::lost("the runtime of the store has ended"));
    match pending.await.unwrap_or_else(gone)? {
        // Nothing was stored.
        Reply::ServerError(why) if why.starts_with("out of memory") => {
            Err(Error::unavailable(format!("{why}; the server needs more memory (-m)")))
        }
        Reply::ServerError(why) if why.starts_with("object too large") => {
            Err(Error::store(format!("{why}; the server takes larger ones with -I"), false))
        }
        // The error may come from a proxy, so the request may have been executed.
        Reply::ServerError(why) => Err(Error::lost(why)),
        Reply::Refused(why) => Err(Error::store(why, false)),
        reply => Ok(reply),
    }
}

pub(crate) fn unexpected(reply: &Reply) -> Error {
    Error::store(format!("an answer that does not fit the request: {reply:?}"), false)
}

async fn look_after(way: Way, link: watch::Sender<Link>) {
    let (mut pause, mut warned) = (FIRST_PAUSE, false);
    let server = way.address.to_string();
    for number in 0.. {
        let attempt = tokio::time::timeout(way.connect_timeout, way.connect()).await;
        let attempt = attempt.unwrap_or_else(|_| {
            let span = way.connect_timeout;
            Err(Error::unavailable(format!("{server}: not connected within {span:?}")))
        });
        match attempt {
            Ok(((reader, writer), largest)) => {
                tracing::debug!(server, "connected");
                let connection = Arc::new(Connection::new(number, largest));
                link.send_replace(Link::Up(Arc::clone(&connection)));
                pause = FIRST_PAUSE;
                let why = tokio::select! {
                    why = connection.run(reader, writer) => why,
                    () = watch_evictions(&connection, &server, &mut warned) => String::new(),
                };
                tracing::info!(server, why, "connection lost");
                link.send_replace(Link::Connecting);
            }
            Err(error) => {
                tracing::debug!(%error, "cannot connect");
                link.send_replace(Link::Down(error));
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Warns, once, when a server evicts items that may still count. Never ends.
async fn watch_evictions(connection: &Connection, server: &str, warned: &mut bool) {
    while !*warned {
        if let Ok([pending]) = connection.send([&command::stats])
            && let Ok(Ok(Reply::Stats(stats))) = pending.await
        {
            *warned = stats.iter().any(|(name, value)| name == "evictions" && value != "0");
        }
        if *warned {
            tracing::warn!(
                server,
                "it has evicted items to make room: an evicted counter starts again at zero; give the server more memory (-m)"
            );
        }
        tokio::time::sleep(LOOK).await;
    }
    std::future::pending::<()>().await;
}

impl Way {
    /// A stream to the server, logged in, after a check that the server supports what is needed;
    /// and the size of its largest item.
    async fn connect(&self) -> Result<(Stream, usize), Error> {
        let failed =
            |error: std::io::Error| Error::unavailable(format!("{}: {error}", self.address));
        let mut stream = self.open().await.map_err(failed)?;
        if let Some(Login { user, password }) = &self.login {
            let line = format!("{user} {password}");
            let command = format!("set login 0 0 {}\r\n{line}\r\n", line.len());
            match self.ask(&mut stream, command.as_bytes()).await? {
                Reply::Word(word) if word == "STORED" => {}
                other => return Err(self.refuses(&other)),
            }
        }
        let settings = match self.ask(&mut stream, b"stats settings\r\n").await? {
            Reply::Stats(stats) => stats.into_iter().collect::<HashMap<_, _>>(),
            other => return Err(self.refuses(&other)),
        };
        match self.ask(&mut stream, b"mn\r\n").await? {
            Reply::Heard => {}
            _ => {
                return Err(
                    self.cannot("it has no meta commands, which need Memcached 1.6 or newer")
                );
            }
        }
        if settings.get("cas_enabled").is_some_and(|cas| cas == "no") {
            return Err(self.cannot("it was started with -C, without versions of items"));
        }
        let largest = settings.get("item_size_max").and_then(|size| size.parse().ok());
        Ok((stream, largest.unwrap_or(1 << 20)))
    }

    /// A new connection without a login.
    async fn open(&self) -> std::io::Result<Stream> {
        match &self.address {
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                let (reader, writer) = stream.into_split();
                Ok((Box::new(reader), Box::new(writer)))
            }
            Address::Unix(path) => {
                let (reader, writer) = UnixStream::connect(path).await?.into_split();
                Ok((Box::new(reader), Box::new(writer)))
            }
        }
    }

    /// A separate connection, for what takes long.
    pub(crate) async fn own_connection(&self) -> Result<Stream, Error> {
        let connected = tokio::time::timeout(self.connect_timeout, self.connect()).await;
        let late = |_| {
            let span = self.connect_timeout;
            Err(Error::unavailable(format!("{}: not connected within {span:?}", self.address)))
        };
        Ok(connected.unwrap_or_else(late)?.0)
    }

    /// Sends one command and reads its answer, on a connection that is used for nothing else.
    async fn ask(&self, (reader, writer): &mut Stream, command: &[u8]) -> Result<Reply, Error> {
        let failed = |why: String| Error::unavailable(format!("{}: {why}", self.address));
        writer.write_all(command).await.map_err(|error| failed(error.to_string()))?;
        let mut bytes = Vec::new();
        loop {
            let read = reader.read_buf(&mut bytes).await.map_err(|e| failed(e.to_string()))?;
            if read == 0 {
                return Err(failed("it was closed".to_owned()));
            }
            let parsed = Reply::parse(&bytes).map_err(|malformed| {
                self.cannot(&format!("it does not speak Memcached's protocol: {malformed}"))
            })?;
            if let Some((reply, _)) = parsed {
                return Ok(reply);
            }
        }
    }

    fn refuses(&self, reply: &Reply) -> Error {
        match reply {
            Reply::Refused(why) => self.cannot(why),
            Reply::ServerError(why) => Error::unavailable(format!("{}: {why}", self.address)),
            other => self.cannot(&format!("an answer that does not fit the request: {other:?}")),
        }
    }

    /// An error that waiting does not help against.
    fn cannot(&self, why: &str) -> Error {
        Error::store(format!("{}: {why}", self.address), false)
    }
}
