//! The members of a cluster, and the connection to one of them: made again, to another where there
//! is one, whenever it breaks.
//!
//! A task looks after the connection; callers only look at what it has. While there is none they
//! are told why at once: nobody waits for a cluster that is known to be away.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tollgate::{Error, ErrorKind};

use crate::connection::Connection;
use crate::failure::{self, Failure, Remedy};
use crate::messages::Call;
use crate::target::Target;

/// The first pause after all members have been tried in vain, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a suspected connection may take to answer.
const PING: Duration = Duration::from_secs(1);

/// A cluster.
#[derive(Debug)]
pub(crate) struct Members {
    target: Target,
    /// A key that may be read, to see whether a member can.
    probe: Vec<u8>,
    connect_timeout: Duration,
    link: watch::Sender<Link>,
    supervised: Mutex<bool>,
    pub(crate) runtime: tokio::runtime::Handle,
}

#[derive(Clone, Debug)]
enum Link {
    /// An attempt is under way, beginning with that member: the first, or after a connection that
    /// worked.
    Connecting(usize),
    Up(Up),
    Down(Error),
}

/// A connection, the member it leads to, and which one in the order of time it is.
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
        runtime: tokio::runtime::Handle,
    ) -> Arc<Members> {
        let link = watch::Sender::new(Link::Connecting(0));
        let supervised = Mutex::new(false);
        Arc::new(Members { target, probe, connect_timeout, link, supervised, runtime })
    }

    /// Sends a request, and once more if it was surely not executed and another connection may
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
        // Nobody's deadline, but somebody's turn: what waits for the same key waits for this.
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

    /// Can it answer? Not for longer than connecting may take.
    pub(crate) async fn check(self: &Arc<Self>) -> Result<(), Error> {
        let check = async {
            let up = self.up().await?;
            Ok(up.connection.check(&self.probe).await?)
        };
        self.in_time(check).await
    }

    /// A call that has no deadline of a caller, and may take as long as connecting may.
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

    /// Finds out whether a connection that looks alive is.
    pub(crate) async fn suspect(&self) {
        let Link::Up(up) = self.link.borrow().clone() else { return };
        let answer = tokio::time::timeout(PING, up.connection.check(&self.probe)).await;
        if !matches!(answer, Ok(Ok(()))) {
            tracing::warn!(members = ?self.target, "a member does not answer: connecting anew");
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

    /// Gives up the connection of that number, if it is still the one: the task makes another,
    /// beginning with that member.
    fn is_broken(&self, number: u64, next: usize) {
        self.link.send_if_modified(|link| {
            let current = matches!(link, Link::Up(up) if up.number == number);
            if current {
                *link = Link::Connecting(next % self.target.len());
            }
            current
        });
    }

    /// Starts the task that looks after the connection, once.
    fn supervise(self: &Arc<Self>) {
        let mut supervised = self.supervised.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *supervised, true) {
            self.runtime.spawn(supervise(Arc::downgrade(self)));
        }
    }

    /// The first member that answers, beginning with that one. Each has an equal part of the time.
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

/// Connects, waits until the connection is broken, and connects again, for as long as somebody
/// holds the members.
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
                // An error when nobody holds the members any more.
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
