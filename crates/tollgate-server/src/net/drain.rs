//! Stopping without dropping anybody. First the server is on its way out and says so to who asks
//! for its health, while all is answered as before; then ports take no more connections, and
//! connections answer what they have read and end.

use tokio::sync::watch;

/// Who says when to stop.
#[derive(Debug)]
pub struct Drain {
    leaves: watch::Sender<bool>,
    begins: watch::Sender<bool>,
}

/// Who is told. Of each of the two apart: who waits for the second is not woken by the first.
#[derive(Clone, Debug)]
pub struct Draining {
    leaves: watch::Receiver<bool>,
    begins: watch::Receiver<bool>,
}

impl Drain {
    /// Not yet.
    #[must_use]
    pub fn new() -> (Drain, Draining) {
        let (leave, leaves) = watch::channel(false);
        let (begin, begins) = watch::channel(false);
        (Drain { leaves: leave, begins: begin }, Draining { leaves, begins })
    }

    /// Soon: all is answered as before, but nobody new should come.
    pub fn leave(&self) {
        self.leaves.send_replace(true);
    }

    /// Now.
    pub fn begin(&self) {
        self.leave();
        self.begins.send_replace(true);
    }
}

impl Draining {
    /// Comes back when nobody new should come any more.
    pub async fn left(&mut self) {
        let _ = self.leaves.wait_for(|left| *left).await;
    }

    /// Whether the server is still ready for new clients.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !*self.leaves.borrow()
    }

    /// Comes back when it is time to stop.
    pub async fn begun(&mut self) {
        // Whoever could say so is gone: then it is time as well.
        let _ = self.begins.wait_for(|begun| *begun).await;
    }

    /// Whether it is.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        *self.begins.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_not_ready_before_it_stops() {
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
