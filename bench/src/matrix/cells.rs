//! The cells of the matrix: the type of the keys, their number, and the limit.

use crate::keys::SplitMix;
use std::time::Duration;

/// The type of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    U64,
    Ipv4,
    Ipv6,
    Short,
    Long,
    Tuple,
}

impl KeyKind {
    pub(crate) const ALL: [KeyKind; 6] =
        [KeyKind::U64, KeyKind::Ipv4, KeyKind::Ipv6, KeyKind::Short, KeyKind::Long, KeyKind::Tuple];

    pub(crate) fn title(self) -> &'static str {
        match self {
            KeyKind::U64 => "u64",
            KeyKind::Ipv4 => "IPv4",
            KeyKind::Ipv6 => "IPv6",
            KeyKind::Short => "short text",
            KeyKind::Long => "long text",
            KeyKind::Tuple => "(u64, text)",
        }
    }
}

/// Runs `$body` with `$K` as the Rust type of the keys.
macro_rules! with_key_type {
    ($kind:expr, $K:ident => $body:expr) => {
        match $kind {
            KeyKind::U64 => {
                type $K = u64;
                $body
            }
            KeyKind::Ipv4 => {
                type $K = Ipv4Addr;
                $body
            }
            KeyKind::Ipv6 => {
                type $K = Ipv6Addr;
                $body
            }
            KeyKind::Short => {
                type $K = String;
                $body
            }
            KeyKind::Long => {
                type $K = Long;
                $body
            }
            KeyKind::Tuple => {
                type $K = Pair;
                $body
            }
        }
    };
}
pub(super) use with_key_type;

/// A limit, as tollgate reads it and as peers are told it. Peers have one algorithm each and use
/// that for windows too.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CellLimit {
    pub(crate) text: &'static str,
    pub(crate) quota: u32,
    pub(crate) period: Duration,
    pub(crate) burst: u32,
}

const fn limit(text: &'static str, quota: u32, seconds: u64, burst: u32) -> CellLimit {
    CellLimit { text, quota, period: Duration::from_secs(seconds), burst }
}

pub(crate) const LIMITS: [CellLimit; 6] = [
    limit("10/hour", 10, 3_600, 10),
    limit("10/second", 10, 1, 10),
    limit("1000/second", 1_000, 1, 1_000),
    limit("7/second burst=3", 7, 1, 3),
    limit("100/minute fixed-window", 100, 60, 100),
    limit("100/minute sliding-window", 100, 60, 100),
];

/// The numbers of keys.
pub(crate) const COUNTS: [usize; 5] = [1, 10_000, 1_000_000, 10_000_000, 100_000_000];

/// A key type, a number of keys and a limit. Each is measured with one thread and with two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) kind: KeyKind,
    pub(crate) count: usize,
    pub(crate) limit: &'static CellLimit,
}

/// The memory of all contenders together, in bytes per key: a rough upper bound.
const BYTES_PER_KEY: usize = 1_000;

/// All cells that fit into this many bytes, in an order that depends on the seed.
pub(crate) fn all(seed: u64, memory: usize) -> Vec<Cell> {
    let mut cells = Vec::new();
    for kind in KeyKind::ALL {
        for count in COUNTS.into_iter().filter(|count| count * BYTES_PER_KEY <= memory) {
            cells.extend(LIMITS.iter().map(|limit| Cell { kind, count, limit }));
        }
    }
    SplitMix::new(seed).shuffle(&mut cells);
    cells
}

/// The number of keys in words.
pub(crate) fn in_words(count: usize) -> String {
    match count {
        1_000_000.. => format!("{} M", count / 1_000_000),
        1_000.. => format!("{} k", count / 1_000),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_the_order_and_memory_the_counts() {
        let order = |seed, memory| {
            let cells = all(seed, memory);
            cells.iter().map(|cell| format!("{cell:?}")).collect::<Vec<_>>()
        };
        assert_eq!(order(1, usize::MAX), order(1, usize::MAX));
        assert_ne!(order(1, usize::MAX), order(2, usize::MAX));
        assert_eq!(order(1, usize::MAX).len(), 6 * 5 * 6);
        assert_eq!(order(1, 10_000_000_000).len(), 6 * 4 * 6);
    }
}
