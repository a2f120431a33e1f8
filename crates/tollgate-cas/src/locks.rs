//! Locks of cells, for queues that have a cell in common.

use tokio::sync::{Mutex, MutexGuard};

use crate::cells::Name;

/// Number of cell locks. Two cells may share one; then their queues wait for each other needlessly,
/// which is rare.
const LOCKS: usize = 1024;

/// One lock per cell, by hash. Empty if no two queues can have a cell in common.
#[derive(Debug)]
pub(crate) struct CellLocks(Box<[Mutex<()>]>);

impl CellLocks {
    /// `overlap`: whether two queues may have a cell in common.
    pub(crate) fn new(overlap: bool) -> CellLocks {
        CellLocks((0..if overlap { LOCKS } else { 0 }).map(|_| Mutex::default()).collect())
    }

    /// Whether two queues may have a cell in common.
    pub(crate) fn overlap(&self) -> bool {
        !self.0.is_empty()
    }

    /// Locks these cells against other queues. Always in the same order, so that no two queues
    /// deadlock.
    pub(crate) async fn lock(&self, names: &[Name]) -> Vec<MutexGuard<'_, ()>> {
        if !self.overlap() {
            return Vec::new();
        }
        let lock_index = |name: &Name| name.shard(self.0.len());
        let mut indexes: Vec<usize> = names.iter().map(lock_index).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let mut locked = Vec::with_capacity(indexes.len());
        for index in indexes {
            locked.push(self.0[index].lock().await);
        }
        locked
    }
}
