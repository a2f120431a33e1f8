//! Digests of counts, the same on every replica that has the same counts.

use tollgate::Timestamp;

use super::counts::Cell;
use super::entry::Entry;
use super::message::PARTS;
use super::slot::Kind;

/// FNV-1a with a final mixing step. All replicas must agree on it, so it is written here instead of
/// taken from a library that may change.
fn hash_bytes(mut hash: u64, bytes: &[u8]) -> u64 {
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    stir(hash ^ bytes.len() as u64)
}

/// The last step of SplitMix64.
pub(crate) fn stir(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn hash_of(entry: &Entry) -> u64 {
    let kind = Kind::ALL.iter().position(|kind| *kind == entry.held.kind).unwrap_or(0) as u64;
    hash_bytes(hash_bytes(0xcbf2_9ce4_8422_2325 ^ kind, &entry.held.prefix), &entry.key)
}

/// The part that a key belongs to.
pub(crate) fn part_of(entry: &Entry) -> usize {
    (hash_of(entry) % PARTS as u64) as usize
}

/// Adds the counts of an entry that are alive at a time. Adding them twice removes them.
pub(crate) fn add(digests: &mut [u64; PARTS], entry: &Entry, at: Timestamp) {
    let key = hash_of(entry);
    let digest = &mut digests[(key % PARTS as u64) as usize];
    for Cell { slot, actor, count } in entry.counts.cells() {
        if slot.is_dead(entry.held.kind, at) {
            continue;
        }
        let words =
            [slot.number, slot.span, *actor, count.charged, count.refunded, count.forgotten];
        *digest ^= words.iter().fold(key, |hash, word| stir(hash.rotate_left(5) ^ word));
    }
}
