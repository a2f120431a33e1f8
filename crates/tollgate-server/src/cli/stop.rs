//! Signals that stop the server: the first drains it, the second ends it immediately.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{ERROR, supervisor};
use crate::net::Drain;

/// Signals that arrive this soon after the first are repetitions of it: `timeout` sends one to a
/// process and one to its group, a terminal sends one to the whole group.
const ECHO: Duration = Duration::from_millis(100);

/// The signals that end the server.
#[derive(Debug)]
pub(super) struct Stop {
    term: Signal,
    int: Signal,
}

impl Stop {
    /// Starts to listen for the signals.
    pub(super) fn new() -> std::io::Result<Stop> {
        Ok(Stop { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    async fn signal(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }

    /// Waits for the first signal, reports "not ready" for `delay`, then begins to drain. A second
    /// signal ends the process.
    pub(super) async fn drain(mut self, drain: &Drain, delay: Duration) {
        self.signal().await;
        supervisor::tell(supervisor::STOPPING);
        drain.leave();
        tracing::info!(delay = ?delay, "stopping: open requests are answered first");
        tokio::spawn(async move {
            let echo = tokio::time::timeout(ECHO, async {
                loop {
                    self.signal().await;
                }
            });
            let Err(_) = echo.await;
            self.signal().await;
            tracing::warn!("second signal: the process ends immediately");
            std::process::exit(ERROR.into());
        });
        tokio::time::sleep(delay).await;
        drain.begin();
    }
}
