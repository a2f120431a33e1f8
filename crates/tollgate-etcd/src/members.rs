//! The members of a cluster, and the connection to one of them. When it breaks it is made again, to
//! another member if there is one.
//!
//! A task maintains the connection, and callers only use it. While there is none, callers
//! immediately get the reason: no call waits for a cluster that is known to be away.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tollgate::{Error, ErrorKind};
use tollgate_remote::Tokio;

use crate::connection::Connection;
use crate::failure::{self, Failure, Remedy};
use crate::messages::Call;
use crate::target::Target;

/// The first pause after all members have failed, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a suspected connection may take to answer.
const PING: Duration = Duration::from_secs(1);

/// A cluster.
#[derive(Debug)]
pub(crate) struct Members {
    target: Target,
    /// A key for test reads of a member.
    probe: Vec<u8>,
    connect_timeout: Duration,
    link: watch::Sender<Link>,
    supervised: Mutex<bool>,
    pub(crate) runtime: Tokio,
}

#[derive(Clone, Debug)]
enum Link {
    /// An attempt to connect is in progress, starting with that member: the first attempt, or one
    /// after a connection that worked.
    Connecting(usize),
    Up(Up),
    Down(Error),
}

/// A connection, its member, and its number in order of time.
#[derive(Clone, Debug)]
struct Up {
    connection: Connection,
    member: usize,
    number: u64,
}

impl Members {
    pub(crate) fn new(
        target: Target,
        probe: Vec<u8>,
        connect_timeout: Duration,
        runtime: Tokio,
    ) -> Arc<Members> {
        let link = watch::Sender::new(Link::Connecting(0));
        let supervised = Mutex::new(false);
        Arc::new(Members { target, probe, connect_timeout, link, supervised, runtime })
    }

    /// Sends a request, and a second time if it was surely not executed and another connection may
    /// help.
    pub(crate) async fn send<C: Call>(
        self: &Arc<Self>,
        message: impl Fn() -> C,
    ) -> Result<C::Answer, Failure> {
        let failure = match self.send_once(message()).await {
            Err(failure) => failure,
            answered => return answered,
        };
        match failure.remedy {
            Remedy::Login if self.target.login().is_some() => self.send_once(message()).await,
            Remedy::NextMember if failure.error.kind() == ErrorKind::Unavailable => {
                self.send_once(message()).await
            }
            _ => Err(failure),
        }
    }

    async fn send_once<C: Call>(self: &Arc<Self>, message: C) -> Result<C::Answer, Failure> {
        let up = self.up().await?;
        let answer = {
            let _on_it = self.runtime.enter();
            tokio::time::timeout(self.connect_timeout, up.connection.send(message))
        };
        // This bounds the time of a request without a caller's deadline: other calls for the same
        // key wait for it.
        let answer = answer.await.unwrap_or_else(|_| {
            up.connection.bury();
            let error = Error::lost(format!("none within {:?}", self.connect_timeout));
            Err(Failure { error, remedy: Remedy::NextMember })
        });
        match answer.as_ref().map_err(|failure| failure.remedy) {
            Err(Remedy::NextMember) => self.is_broken(up.number, up.member + 1),
            Err(Remedy::Login) => self.is_broken(up.number, up.member),
            Ok(_) | Err(Remedy::NewLease | Remedy::None) => {}
        }
        answer
    }

    /// Checks whether the cluster answers, for no longer than connecting may take.
    pub(crate) async fn check(self: &Arc<Self>) -> Result<(), Error> {
        let check = async {
            let up = self.up().await?;
            Ok(up.connection.check(&self.probe).await?)
        };
        self.in_time(check).await
    }

    /// A call without a caller's deadline. It may take as long as connecting may.
    pub(crate) async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let limited = {
            let _on_it = self.runtime.enter();
            tokio::time::timeout(self.connect_timeout, call)
        };
        let late = |_| Error::lost(format!("none within {:?}", self.connect_timeout));
        limited.await.map_err(late)?
    }

    /// Tests a connection that seems to work.
    pub(crate) async fn suspect(&self) {
        let Link::Up(up) = self.link.borrow().clone() else { return };
        let answer = tokio::time::timeout(PING, up.connection.check(&self.probe)).await;
        if !matches!(answer, Ok(Ok(()))) {
            tracing::warn!(members = ?self.target, "a member does not answer: reconnecting");
            up.connection.bury();
            self.is_broken(up.number, up.member + 1);
        }
    }

    /// The connection, as soon as the first attempt to make it has ended.
    async fn up(self: &Arc<Self>) -> Result<Up, Error> {
        if let Link::Up(up) = &*self.link.borrow() {
            return Ok(up.clone());
        }
        self.supervise();
        let mut link = self.link.subscribe();
        let settled = link.wait_for(|link| !matches!(link, Link::Connecting(_))).await;
        match settled.as_deref() {
            Ok(Link::Up(up)) => Ok(up.clone()),
            Ok(Link::Down(error)) => Err(error.clone()),
            Ok(Link::Connecting(_)) | Err(_) => Err(Error::unavailable("not connected")),
        }
    }

    /// Gives up the connection of that number, if it is still in use. The task makes another,
    /// starting with that member.
    fn is_broken(&self, number: u64, next: usize) {
        self.link.send_if_modified(|link| {
            let current = matches!(link, Link::Up(up) if up.number == number);
            if current {
                *link = Link::Connecting(next % self.target.len());
            }
            current
        });
    }

    /// Starts the task that maintains the connection, once.
    fn supervise(self: &Arc<Self>) {
        let mut supervised = self.supervised.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *supervised, true) {
            self.runtime.spawn(supervise(Arc::downgrade(self)));
        }
    }

    /// Connects to the first member that answers, starting with `from`. Each gets an equal part of
    /// the time.
    async fn connect(&self, from: usize) -> Result<(Connection, usize), Error> {
        let mut last = Error::unavailable("no members");
        let part = self.connect_timeout / u32::try_from(self.target.len()).unwrap_or(u32::MAX);
        for (index, member) in self.target.from(from) {
            let open = Connection::open(member, self.target.login(), &self.probe);
            last = match tokio::time::timeout(part, open).await {
                Ok(Ok(connection)) => return Ok((connection, index)),
                Ok(Err(error)) => error,
                Err(_) => {
                    let late = Error::unavailable(format!("not connected within {part:?}"));
                    failure::of_connect(member.uri(), &late.into())
                }
            };
            tracing::debug!(error = %last, "cannot connect");
        }
        Err(last)
    }
}

/// Connects, waits until the connection breaks, and connects again, until the members are dropped.
async fn supervise(members: Weak<Members>) {
    let (mut pause, mut from) = (FIRST_PAUSE, 0);
    for number in 0.. {
        let Some(strong) = members.upgrade() else { return };
        match strong.connect(from).await {
            Ok((connection, member)) => {
                tracing::debug!(members = ?strong.target, member, "connected");
                strong.link.send_replace(Link::Up(Up { connection, member, number }));
                pause = FIRST_PAUSE;
                let mut link = strong.link.subscribe();
                drop(strong);
                // An error means that the members were dropped.
                match link.wait_for(|link| !matches!(link, Link::Up(_))).await.as_deref() {
                    Ok(Link::Connecting(next)) => from = *next,
                    Ok(_) => {}
                    Err(_) => return,
                }
                tracing::info!("connection to etcd lost");
            }
            Err(error) => {
                strong.link.send_replace(Link::Down(error));
                drop(strong);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}
