//! Measures a cell. Contenders take turns in every round, and the best round counts.

use super::cells::{Cell, KeyKind, with_key_type};
use super::contenders::{Contender, TITLES, build};
use super::keys::{CellKey, Long, Pair};
use crate::Outcome;
use crate::keys::SplitMix;
use crate::measure::{Taken, resident, taken, taken_by_two};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;

/// The hidden subcommand.
pub(crate) const COMMAND: &str = "matrix-bytes";

/// Copies of a single key.
const COPIES: usize = 256;

/// Keys of the measurement of memory.
const COUNTED: usize = 1_000_000;

/// The best round of a contender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Nanoseconds per hit of a thread.
    pub(crate) nanos: f64,
    /// In every round the threads had to wait for a core, so CPU time is told, not wall time.
    pub(crate) disturbed: bool,
}

/// The results of a cell: for one thread and for two, one for each contender.
pub(crate) struct Measured {
    pub(crate) cell: Cell,
    pub(crate) by_threads: [[Pace; TITLES.len()]; 2],
}

pub(crate) fn cell(cell: Cell, rounds: usize, hits: usize) -> Outcome<Measured> {
    let by_threads = with_key_type!(cell.kind, K => paces::<K>(cell, rounds, hits))?;
    Ok(Measured { cell, by_threads })
}

fn paces<K: CellKey>(cell: Cell, rounds: usize, hits: usize) -> Outcome<[[Pace; TITLES.len()]; 2]> {
    let hits = hits / COPIES * COPIES;
    let mut random = SplitMix::new(cell.count as u64);
    let all = (0..TITLES.len()).map(|number| build::<K>(number, cell.limit, cell.count));
    let all: Vec<Box<dyn Contender<K>>> = all.collect::<Outcome<_>>()?;
    fill(&all, cell.count);
    let mut best = [[Pace { nanos: f64::INFINITY, disturbed: true }; TITLES.len()]; 2];
    for _ in 0..=rounds {
        // Other keys in each round, so that those of a large table are not in the cache.
        let walks: [Vec<K>; 2] = [(); 2].map(|()| walk(cell.count, hits, &mut random));
        for (number, contender) in all.iter().enumerate() {
            let again = hits / walks[0].len();
            let [a, b] = walks.each_ref().map(|keys| move || contender.walk_again(keys, again));
            let (_, alone) = taken(&a);
            best[0][number].take(Pace::of(alone.cpu.as_secs_f64(), false, hits));
            let [(_, first), (_, second)] =
                taken_by_two([&a, &b]).ok_or("a measuring thread died")?;
            best[1][number].take(Pace::of_two(first, second, hits));
        }
    }
    Ok(best)
}

impl Pace {
    fn of(seconds: f64, disturbed: bool, hits: usize) -> Pace {
        Pace { nanos: seconds * 1e9 / hits as f64, disturbed }
    }

    /// Wall time includes waiting for each other; CPU time leaves out waiting for a core.
    fn of_two(first: Taken, second: Taken, hits: usize) -> Pace {
        let disturbed = first.disturbed() || second.disturbed();
        let time = |taken: Taken| if disturbed { taken.cpu } else { taken.wall };
        Pace::of(time(first).max(time(second)).as_secs_f64(), disturbed, hits)
    }

    /// Keeps the better one: undisturbed before disturbed.
    fn take(&mut self, new: Pace) {
        if (new.disturbed, new.nanos) < (self.disturbed, self.nanos) {
            *self = new;
        }
    }
}

/// Every contender takes in all keys, in another order than that of the walks.
fn fill<K: CellKey>(all: &[Box<dyn Contender<K>>], count: usize) {
    const BLOCK: usize = 100_000;
    // A multiplication by an odd number that has no factor in common with the powers of ten.
    let number = |n: usize| (n as u64).wrapping_mul(7_654_321) % count as u64;
    for start in (0..count).step_by(BLOCK) {
        let keys = start..count.min(start + BLOCK);
        let keys: Vec<K> = keys.map(|n| K::make(number(n))).collect();
        all.iter().for_each(|contender| {
            contender.walk(&keys);
        });
    }
}

/// Keys in the order in which they lie in memory, so that the bytes of a key are in the cache when
/// it is its turn. Copies of a single key are so few that they stay in the first cache.
fn walk<K: CellKey>(count: usize, hits: usize, random: &mut SplitMix) -> Vec<K> {
    let length = if count == 1 { COPIES } else { hits };
    (0..length).map(|_| K::make(random.below(count) as u64)).collect()
}

/// Resident bytes per key of every contender, each in a process of its own.
pub(crate) fn bytes(kind: KeyKind) -> Outcome<[f64; TITLES.len()]> {
    let mut bytes = [0.0; TITLES.len()];
    for (number, bytes) in bytes.iter_mut().enumerate() {
        let kind = kind as usize;
        let output = Command::new(std::env::current_exe()?)
            .args([COMMAND, &kind.to_string(), &number.to_string()])
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        *bytes = said.trim().parse().map_err(|_| format!("{COMMAND} {kind} {number}: {said}"))?;
    }
    Ok(bytes)
}

/// The child's side: the numbers of the key type and of the contender.
pub(crate) fn child(arguments: &[String]) -> Outcome<()> {
    let numbers: Vec<usize> = arguments.iter().filter_map(|text| text.parse().ok()).collect();
    let [kind, number] = numbers[..] else {
        return Err(format!("{COMMAND}: needs the numbers of a key type and a contender").into());
    };
    let kind = *KeyKind::ALL.get(kind).ok_or_else(|| format!("key type {kind}: unknown"))?;
    println!("{}", with_key_type!(kind, K => resident_bytes::<K>(number))?);
    Ok(())
}

fn resident_bytes<K: CellKey>(number: usize) -> Outcome<f64> {
    let limit = &super::cells::LIMITS[0];
    let before = resident();
    let contender = build::<K>(number, limit, COUNTED)?;
    for n in 0..COUNTED as u64 {
        contender.hit(&K::make(n));
    }
    Ok(resident().saturating_sub(before) as f64 / COUNTED as f64)
}
