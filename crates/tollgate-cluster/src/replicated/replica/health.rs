//! The health of a replica: its bus is disconnected, or nodes are missing.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate::shared::FleetNode;
use tollgate::{Error, Timestamp};

use super::Replica;
use super::exchange::Plan;
use crate::replicated::lock;
use crate::replicated::peers::Missing;
use crate::replicated::settings::OnMissing;

/// The most missing nodes that a text names.
const NAMED: usize = 5;

impl Replica {
    pub(super) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// Whether requests should be sent to this node: not without its bus, nor while it denies
    /// everything because nodes are missing.
    ///
    /// # Errors
    /// The reason.
    ///
    /// See the example of [`disconnected`](Replica::disconnected).
    pub fn check(&self, now: Timestamp) -> Result<(), Error> {
        if !self.is_connected() {
            return Err(Error::unavailable(
                "the bus is not connected: this node does not hear the others",
            ));
        }
        let missing = self.missing(now);
        if self.settings.on_missing == OnMissing::Closed && !missing.is_empty() {
            let names = names(&missing);
            let memory = self.settings.memory;
            return Err(Error::unavailable(format!(
                "missing: {names}; nothing is admitted until they are back or have been silent for {memory:?}"
            )));
        }
        Ok(())
    }

    /// Problems that do not stop decisions: a disconnected bus, how many nodes are missing, and
    /// what this node does meanwhile. Names are only logged, because anybody may read the health of
    /// a server.
    ///
    /// ```
    /// # use tollgate::Timestamp;
    /// # use tollgate_cluster::replicated::{Replica, Settings};
    /// let replica = Replica::new(1, Settings::default());
    /// assert_eq!(replica.warnings(Timestamp::EPOCH), ["the bus is not connected"]);
    /// let _ = replica.connected(Timestamp::EPOCH);
    /// assert_eq!(replica.warnings(Timestamp::EPOCH), [""; 0]);
    /// ```
    #[must_use]
    pub fn warnings(&self, now: Timestamp) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.is_connected() {
            warnings.push("the bus is not connected".to_owned());
        }
        let missing = self.missing(now).len();
        if missing == 0 {
            return warnings;
        }
        let nodes = 1 + lock(&self.peers).here() + missing;
        let meanwhile = match self.settings.on_missing {
            OnMissing::GoOn => "this node admits up to the whole limit".to_owned(),
            OnMissing::Share => format!("this node keeps to a share of 1/{nodes} of each limit"),
            OnMissing::Closed => "this node admits nothing".to_owned(),
        };
        warnings.push(format!("missing nodes: {missing}; {meanwhile}"));
        warnings
    }

    /// The other nodes, present and missing, by name: for operators.
    ///
    /// ```
    /// # use tollgate::Timestamp;
    /// # use tollgate_cluster::replicated::{Replica, Settings};
    /// let replica = Replica::new(1, Settings::default());
    /// assert_eq!(replica.nodes(Timestamp::EPOCH), []);
    /// ```
    #[must_use]
    pub fn nodes(&self, now: Timestamp) -> Vec<FleetNode> {
        lock(&self.peers).nodes(now, self.settings.memory)
    }

    fn missing(&self, now: Timestamp) -> Vec<Missing> {
        lock(&self.peers).missing(now, self.settings.memory)
    }

    /// Logs which nodes have become missing and which are no longer missing.
    pub(super) fn log_missing(&self, plan: &mut Plan, missing: Vec<Missing>) {
        for Missing { label, silence } in &missing {
            if !plan.missing.contains(label) {
                let (then, memory) = (self.settings.on_missing, self.settings.memory);
                tracing::warn!(node = %label, ?silence, ?then, ?memory, "a node is missing");
            }
        }
        let labels: BTreeSet<String> = missing.into_iter().map(|missing| missing.label).collect();
        for label in plan.missing.difference(&labels) {
            tracing::info!(node = %label, "a node is no longer missing: it is back, or forgotten");
        }
        plan.missing = labels;
    }
}

/// Names of missing nodes and for how long they have been silent.
fn names(missing: &[Missing]) -> String {
    let name = |missing: &Missing| {
        let seconds = Duration::from_secs(missing.silence.as_secs());
        format!("{} (silent for {seconds:?})", missing.label)
    };
    let mut names: Vec<_> = missing.iter().take(NAMED).map(name).collect();
    if missing.len() > NAMED {
        names.push(format!("{} more", missing.len() - NAMED));
    }
    names.join(", ")
}
