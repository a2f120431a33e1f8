//! A port that is listened on.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{Draining, Stream};

/// How long to wait when the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(20);

/// A port that is listened on.
#[derive(Debug)]
pub struct Port {
    name: &'static str,
    listener: TcpListener,
    grace: Duration,
}

impl Port {
    /// Listens. `name` is what it is called in the log.
    ///
    /// # Errors
    /// When somebody else does, or it is not allowed.
    pub async fn bind(
        name: &'static str,
        address: SocketAddr,
        grace: Duration,
    ) -> io::Result<Port> {
        Ok(Port { name, listener: TcpListener::bind(address).await?, grace })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Lets `handle` talk to everybody who connects, until it is time to stop; then waits for those who still talk, for as long as the grace lasts.
    pub async fn serve<F, T>(self, mut draining: Draining, handle: F)
    where
        F: Fn(Stream, SocketAddr, Draining) -> T,
        T: Future<Output = ()> + Send + 'static,
    {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = draining.begun() => break,
            };
            match accepted {
                Ok((socket, peer)) => {
                    // A whole answer is one write: nothing to wait for.
                    let _ = socket.set_nodelay(true);
                    connections.spawn(handle(Stream::from(socket), peer, draining.clone()));
                }
                Err(error) => {
                    tracing::warn!(port = self.name, %error, "a connection could not be taken");
                    tokio::time::sleep(PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
        drop(self.listener);
        let all = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace, all).await.is_err() {
            tracing::warn!(
                port = self.name,
                "connections were still open after the grace and are cut"
            );
        }
    }
}
