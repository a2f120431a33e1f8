//! Settings of a replica.

use std::time::Duration;

use tollgate::Error;

use super::message::LONGEST_NAME;

/// How a replica decides while peers are missing.
///
/// ```
/// use tollgate_cluster::replicated::OnMissing;
/// assert_eq!(OnMissing::default(), OnMissing::GoOn);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// It decides with the counts that it has: while a fleet is split, each part admits the whole
    /// limit.
    #[default]
    GoOn,
    /// It keeps to its share: its own units may reach the limit divided by the number of nodes that
    /// were present last, and at least one unit.
    Share,
    /// It admits nothing.
    Closed,
}

/// Settings of a replica. Times are of its own clock.
///
/// ```
/// let settings = tollgate_cluster::replicated::Settings::default();
/// assert_eq!(settings.flush.as_millis(), 20);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The interval at which changes are sent.
    pub flush: Duration,
    /// The interval while a limit is nearly reached.
    pub hurry: Duration,
    /// The interval of heartbeats. A peer that has been silent for three of them is missing.
    pub heartbeat: Duration,
    /// About the interval at which digests are compared.
    pub compare: Duration,
    /// How long a new replica waits for the first peer.
    pub join: Duration,
    /// How long a silent peer counts as missing. After that it is forgotten, as if it had left.
    pub memory: Duration,
    /// The rule while peers are missing.
    pub on_missing: OnMissing,
    /// The name of this node, the same after each restart and different on each node. A new start
    /// with the same name replaces the earlier one immediately. Without a name, a process that
    /// crashed is missing for as long as `memory` says.
    pub node: String,
    /// The usual number of nodes. Until a new replica has the counts of others it keeps to its
    /// share.
    pub nodes: u32,
    /// The most units per second that all nodes together are offered for one key, if that is known.
    /// It makes bounds smaller.
    pub peak: Option<u64>,
    /// The most keys.
    pub max_keys: usize,
    /// The most limits. Beyond it, a new limit is refused until an unused one has been forgotten.
    pub max_limits: usize,
    /// How often each key is checked for removal.
    pub clean: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            flush: Duration::from_millis(20),
            hurry: Duration::from_millis(2),
            heartbeat: Duration::from_secs(1),
            compare: Duration::from_secs(5),
            join: Duration::from_millis(250),
            memory: Duration::from_secs(15 * 60),
            on_missing: OnMissing::GoOn,
            node: String::new(),
            nodes: 1,
            peak: None,
            max_keys: 1_000_000,
            max_limits: 100_000,
            clean: Duration::from_secs(10),
        }
    }
}

impl Settings {
    /// How long a peer may be silent before it is missing.
    pub(crate) fn patience(&self) -> Duration {
        self.heartbeat * 3
    }

    /// Refuses settings that contradict each other.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Settings { flush, heartbeat, memory, .. } = self;
        let refuse = |what: String| Err(Error::request(what));
        if *flush < Duration::from_millis(1) || flush > heartbeat {
            return refuse(format!(
                "flush {flush:?}: must be from 1ms to the heartbeat, {heartbeat:?}"
            ));
        }
        if *heartbeat > Duration::from_secs(60) {
            return refuse(format!("heartbeat {heartbeat:?}: must be at most 60s"));
        }
        if *memory < self.patience() {
            let least = self.patience();
            return refuse(format!(
                "memory {memory:?}: must be at least three heartbeats, {least:?}"
            ));
        }
        if self.node.len() > LONGEST_NAME {
            let bytes = self.node.len();
            return refuse(format!("name of {bytes} bytes: must be at most {LONGEST_NAME}"));
        }
        Ok(())
    }
}
