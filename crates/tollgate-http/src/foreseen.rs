//! What is known of requests before they come.

use std::fmt;
use std::sync::Arc;

use crate::chooser::Chosen;
use crate::key_by::{Framed, RequestKey};

/// What all requests of a connection ask: whose they are and who decides. Made by
/// [`Gate::foresee`](crate::Gate::foresee).
pub struct Foreseen<D> {
    pub(crate) key: RequestKey,
    /// The same as it stands in stores, made once for all of them.
    pub(crate) framed: Framed,
    pub(crate) chosen: Arc<Chosen<D>>,
}

impl<D> Foreseen<D> {
    pub(crate) fn new(key: RequestKey, chosen: Arc<Chosen<D>>) -> Foreseen<D> {
        Foreseen { framed: Framed::of(&key), key, chosen }
    }
}

impl<D> fmt::Debug for Foreseen<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Foreseen({:?})", self.key)
    }
}
