//! How a replica behaves.

use std::time::Duration;

/// What a replica does while peers are missing that were here.
///
/// ```
/// use tollgate_cluster::replicated::OnMissing;
/// assert_eq!(OnMissing::default(), OnMissing::GoOn);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// It goes on with what it knows: while a fleet is split, each part admits the whole limit.
    #[default]
    GoOn,
    /// It keeps to its share: its own units to the limit divided by the number of nodes that were here last, and at least one unit.
    Share,
    /// It admits nothing.
    Closed,
}

/// How a replica behaves. Times are of its own clock.
///
/// ```
/// let settings = tollgate_cluster::replicated::Settings::default();
/// assert_eq!(settings.flush.as_millis(), 20);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// What has changed is sent so often.
    pub flush: Duration,
    /// And so often when a limit is nearly reached.
    pub hurry: Duration,
    /// It says that it is here so often. Who has been silent for three of them is missing.
    pub heartbeat: Duration,
    /// Digests are compared about so often.
    pub compare: Duration,
    /// A newcomer waits so long for somebody to be there.
    pub join: Duration,
    /// For how long a peer that is missing counts as one that may come back.
    pub memory: Duration,
    /// What it does while peers are missing.
    pub on_missing: OnMissing,
    /// How many nodes there usually are: until a newcomer has the counts of others it keeps to its share.
    pub nodes: u32,
    /// The most units that all nodes together are offered in a second for one key, if that is known: makes bounds smaller.
    pub peak: Option<u64>,
    /// The most keys that it counts.
    pub max_keys: usize,
    /// Every key is looked at so often, whether it can be forgotten.
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
            nodes: 1,
            peak: None,
            max_keys: 1_000_000,
            clean: Duration::from_secs(10),
        }
    }
}
