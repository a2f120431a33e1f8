//! Stops the server without dropping requests. First it reports that it is not ready, and answers
//! as before. Then ports accept no more connections, and open connections answer the requests that
//! they have read and close.

use tokio::sync::watch;

/// Tells all connections when to stop.
#[derive(Debug)]
pub struct Drain {
    leaves: watch::Sender<bool>,
    begins: watch::Sender<bool>,
}

/// Receives the steps of a [`Drain`]. Each of the two steps has its own channel, so that a task
/// that waits for the second is not woken by the first.
#[derive(Clone, Debug)]
pub struct Draining {
    leaves: watch::Receiver<bool>,
    begins: watch::Receiver<bool>,
}

impl Drain {
    /// A pair in the state before a stop.
    #[must_use]
    pub fn new() -> (Drain, Draining) {
        let (leave, leaves) = watch::channel(false);
        let (begin, begins) = watch::channel(false);
        (Drain { leaves: leave, begins: begin }, Draining { leaves, begins })
    }

    /// The first step: the server is not ready for new clients, and answers as before.
    pub fn leave(&self) {
        self.leaves.send_replace(true);
    }

    /// The second step: connections close.
    pub fn begin(&self) {
        self.leave();
        self.begins.send_replace(true);
    }
}

impl Draining {
    /// Returns when the server is not ready for new clients.
    pub async fn left(&mut self) {
        let _ = self.leaves.wait_for(|left| *left).await;
    }

    /// Whether the server is still ready for new clients.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !*self.leaves.borrow()
    }

    /// Returns when connections should close.
    pub async fn begun(&mut self) {
        // If the sender is gone, it is time to stop as well.
        let _ = self.begins.wait_for(|begun| *begun).await;
    }

    /// Whether connections should close.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        *self.begins.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_server_is_not_ready_before_it_stops() {
        let (drain, mut draining) = Drain::new();
        assert!(draining.is_ready() && !draining.has_begun());
        drain.leave();
        draining.left().await;
        assert!(!draining.is_ready() && !draining.has_begun());
        drain.begin();
        draining.begun().await;
        assert!(!draining.is_ready() && draining.has_begun());
    }
}
