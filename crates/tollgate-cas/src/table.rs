//! The smallest implementation of [`Cells`].

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate::Error;

use crate::cells::{Cell, Cells, Change, Name, Swap, Swapped};

/// Cells in memory that never expire. For tests, and as an example for other implementations of
/// [`Cells`].
///
/// ```
/// use tollgate_cas::{Cas, Table};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::Error> {
/// let store = Cas::builder(Table::<true>::default()).build()?;
/// let limiter = store.limiter("1/hour")?;
/// assert!(limiter.hit("alice").await?.allowed());
/// assert!(!limiter.hit("alice").await?.allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Table<const TOGETHER: bool> {
    cells: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    rows: BTreeMap<Box<[u8]>, Cell<u64>>,
    last: u64,
}

impl Rows {
    fn read(&self, name: &Name) -> Option<Cell<u64>> {
        self.rows.get(name.bytes()).cloned()
    }

    fn change(&mut self, swap: &Swap<'_, u64>) -> Option<u64> {
        match swap.change {
            Change::Keep => return swap.expected,
            Change::Delete => {
                self.rows.remove(swap.name.bytes());
                return None;
            }
            Change::Put { value, .. } => {
                self.last += 1;
                let cell = Cell { value: value.to_vec(), version: self.last };
                self.rows.insert(swap.name.bytes().into(), cell);
            }
        }
        Some(self.last)
    }
}

impl<const TOGETHER: bool> Table<TOGETHER> {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<const TOGETHER: bool> Cells for Table<TOGETHER> {
    type Version = u64;

    const TOGETHER: bool = TOGETHER;

    async fn read(&self, names: &[Name]) -> Result<Vec<Option<Cell<u64>>>, Error> {
        let rows = self.rows();
        Ok(names.iter().map(|name| rows.read(name)).collect())
    }

    async fn swap(&self, swaps: &[Swap<'_, u64>], _sure: bool) -> Result<Swapped<u64>, Error> {
        let mut rows = self.rows();
        let cells: Vec<_> = swaps.iter().map(|swap| rows.read(swap.name)).collect();
        let version = |cell: &Option<Cell<u64>>| cell.as_ref().map(|cell| cell.version);
        if swaps.iter().zip(&cells).any(|(swap, cell)| swap.expected != version(cell)) {
            return Ok(Swapped::Lost(Some(cells)));
        }
        Ok(Swapped::Done(swaps.iter().map(|swap| rows.change(swap)).collect()))
    }

    async fn forget(&self, place: &[u8]) -> Result<(), Error> {
        self.rows().rows.retain(|name, _| !name.starts_with(place));
        Ok(())
    }

    async fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}
