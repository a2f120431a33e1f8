//! How much a crash may forget.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tollgate::Error;

/// The data that must be on disk before a call is answered: see the table at the top of the
/// [crate].
///
/// ```
/// use tollgate_durable::Level;
/// assert_eq!("sync".parse::<Level>()?, Level::Sync);
/// assert_eq!(Level::default().to_string(), "reserve");
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Level {
    /// Changes are on disk only after the store is closed: a crash forgets everything since it was
    /// opened.
    None,
    /// Changes are written once per interval, and calls do not wait for that. A crash forgets at
    /// most one interval.
    Interval,
    /// Units that the key may use, ahead of time. A crash forgets only keys that were new within
    /// the last interval.
    #[default]
    Reserve,
    /// Everything that the call charged is on disk.
    Sync,
}

const NAMES: [(&str, Level); 4] = [
    ("none", Level::None),
    ("interval", Level::Interval),
    ("reserve", Level::Reserve),
    ("sync", Level::Sync),
];

impl FromStr for Level {
    type Err = Error;

    fn from_str(text: &str) -> Result<Level, Error> {
        let named = NAMES.iter().find(|(name, _)| *name == text);
        named.map(|(_, level)| *level).ok_or_else(|| {
            Error::request(format!("level {text:?}: expected none, interval, reserve or sync"))
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, level)| level == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

/// A level and the interval between commits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeping {
    pub(crate) level: Level,
    pub(crate) interval: Duration,
}

impl Keeping {
    /// Whether some answers wait for the disk.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        matches!(self.level, Level::Reserve | Level::Sync)
    }

    /// Whether every charge waits.
    pub(crate) fn is_sync(&self) -> bool {
        self.level == Level::Sync
    }

    /// The interval for which keys get a reserve; `None` if they get none.
    #[inline]
    pub(crate) fn reserves_for(&self) -> Option<Duration> {
        (self.level == Level::Reserve).then_some(self.interval)
    }

    /// The longest delay of writes for which no call waits; `None` when the store is closed.
    pub(crate) fn later(&self) -> Option<Duration> {
        (self.level != Level::None).then_some(self.interval)
    }

    /// The longest delay of writes for which a call may wait soon.
    pub(crate) fn soon(&self) -> Option<Duration> {
        self.later().map(|interval| interval / 8)
    }
}
