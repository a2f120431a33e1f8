//! Stopping without dropping anybody: ports take no more connections, connections answer what they have read and then end.

use tokio::sync::watch;

/// Who says when to stop.
#[derive(Debug)]
pub struct Drain(watch::Sender<bool>);

/// Who is told.
#[derive(Clone, Debug)]
pub struct Draining(watch::Receiver<bool>);

impl Drain {
    /// Not yet.
    #[allow(clippy::new_without_default)] // it is one of a pair
    #[must_use]
    pub fn new() -> (Drain, Draining) {
        let (sender, receiver) = watch::channel(false);
        (Drain(sender), Draining(receiver))
    }

    /// Now.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }
}

impl Draining {
    /// Comes back when it is time to stop.
    pub async fn begun(&mut self) {
        // Whoever could say so is gone: then it is time as well.
        let _ = self.0.wait_for(|begun| *begun).await;
    }

    /// Whether it is.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }
}
