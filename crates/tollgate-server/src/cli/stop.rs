//! Signals: the first lets everybody finish, the second does not.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{ERROR, supervisor};
use crate::net::Drain;

/// What comes this soon after the first signal is the same word: `timeout` sends one to a process
/// and one to its group, a terminal one to all of it.
const ECHO: Duration = Duration::from_millis(100);

/// The signals that end the server.
#[derive(Debug)]
pub(super) struct Stop {
    term: Signal,
    int: Signal,
}

impl Stop {
    /// Listens for them from now on.
    pub(super) fn new() -> std::io::Result<Stop> {
        Ok(Stop { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    async fn told(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }

    /// Waits for the first, then says for that long that it is not ready, then begins to drain.
    /// Whoever asks twice is not kept waiting.
    pub(super) async fn drain(mut self, drain: &Drain, delay: Duration) {
        self.told().await;
        supervisor::tell(supervisor::STOPPING);
        drain.leave();
        tracing::info!(delay = ?delay, "told to stop: what was asked is answered first");
        tokio::spawn(async move {
            let echo = tokio::time::timeout(ECHO, async {
                loop {
                    self.told().await;
                }
            });
            let Err(_) = echo.await;
            self.told().await;
            tracing::warn!("told to stop twice: ended at once");
            std::process::exit(ERROR.into());
        });
        tokio::time::sleep(delay).await;
        drain.begin();
    }
}
