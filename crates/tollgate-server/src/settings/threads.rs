//! The number of worker threads.

use std::num::NonZeroUsize;
use std::str::FromStr;

/// The number of worker threads, from 1 to 1024.
///
/// ```
/// use tollgate_server::settings::Threads;
/// assert_eq!("4".parse::<Threads>()?.count(), 4);
/// assert!("0".parse::<Threads>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads(usize);

impl Threads {
    const MOST: usize = 1024;

    /// The number of worker threads.
    #[must_use]
    pub fn count(self) -> usize {
        self.0
    }

    /// One thread per core but one. The last core is left to the network and to clients, which
    /// often run on the same machine. A thread that shares a core with them makes both wait.
    #[must_use]
    pub fn from_cores(cores: usize) -> Threads {
        Threads(cores.saturating_sub(1).clamp(1, Threads::MOST))
    }
}

/// The best number for this machine.
impl Default for Threads {
    fn default() -> Self {
        Threads::from_cores(std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
    }
}

impl FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let count = text.parse().ok().filter(|count| (1..=Threads::MOST).contains(count));
        count
            .map(Threads)
            .ok_or_else(|| format!("{text:?}: must be a number from 1 to {}", Threads::MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_is_left_free_if_there_are_several() {
        let threads = [0, 1, 2, 3, 8, 5_000].map(|cores| Threads::from_cores(cores).count());
        assert_eq!(threads, [1, 1, 1, 2, 7, 1024]);
    }

    #[test]
    fn zero_threads_too_many_and_invalid_text_are_refused() {
        for text in ["0", "-1", "1025", "many", ""] {
            let error = text.parse::<Threads>().unwrap_err();
            assert_eq!(error, format!("{text:?}: must be a number from 1 to 1024"));
        }
    }
}
