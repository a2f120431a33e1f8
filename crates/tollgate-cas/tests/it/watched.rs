//! Cells that count their calls, and can block them or let them fail.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use tollgate::shared::{Guard, SharedLimiter};
use tollgate::{Error, Limit};
use tollgate_cas::{Cas, CasBuilder, Cell, Cells, Name, Swap, Swapped, Table};

/// How the next swap fails.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It is executed, and its reply is lost.
    LostReply,
    /// It is not executed.
    NotSent,
    /// This and all later ones are lost, because another process writes the cell before each.
    Contended,
}

#[derive(Debug)]
pub(crate) struct Watched<const TOGETHER: bool> {
    pub(crate) table: Table<TOGETHER>,
    pub(crate) reads: AtomicUsize,
    pub(crate) swaps: AtomicUsize,
    pub(crate) fault: Mutex<Option<Fault>>,
    /// While there is a gate, each call takes one permit of it.
    pub(crate) gate: Mutex<Option<Arc<Semaphore>>>,
}

pub(crate) type Store<const TOGETHER: bool> = Cas<Arc<Watched<TOGETHER>>>;

impl<const TOGETHER: bool> Watched<TOGETHER> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Watched {
            table: Table::default(),
            reads: AtomicUsize::new(0),
            swaps: AtomicUsize::new(0),
            fault: Mutex::new(None),
            gate: Mutex::new(None),
        })
    }

    /// The number of (reads, swaps) since the last call of this function.
    pub(crate) fn trips(&self) -> (usize, usize) {
        (self.reads.swap(0, Ordering::SeqCst), self.swaps.swap(0, Ordering::SeqCst))
    }

    pub(crate) fn close_gate(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.gate.lock().unwrap() = Some(Arc::clone(&gate));
        gate
    }

    pub(crate) fn fail_with(&self, fault: Fault) {
        *self.fault.lock().unwrap() = Some(fault);
    }

    async fn pass(&self) {
        let gate = self.gate.lock().unwrap().clone();
        if let Some(gate) = gate {
            gate.acquire().await.unwrap().forget();
        }
    }
}

pub(crate) fn builder<const TOGETHER: bool>(
    cells: &Arc<Watched<TOGETHER>>,
) -> CasBuilder<Arc<Watched<TOGETHER>>> {
    let guard = Guard::builder().deadline(std::time::Duration::from_secs(20)).remember_denials(0);
    Cas::builder(Arc::clone(cells)).guard(guard)
}

pub(crate) fn store<const TOGETHER: bool>(cells: &Arc<Watched<TOGETHER>>) -> Store<TOGETHER> {
    builder(cells).build().unwrap()
}

pub(crate) fn limiter<const TOGETHER: bool>(
    store: &Store<TOGETHER>,
    text: &str,
) -> SharedLimiter<Store<TOGETHER>> {
    store.limiter(text.parse::<Limit>().unwrap()).unwrap()
}

impl<const TOGETHER: bool> Cells for Watched<TOGETHER> {
    type Version = u64;

    const TOGETHER: bool = TOGETHER;

    async fn read(&self, names: &[Name]) -> Result<Vec<Option<Cell<u64>>>, Error> {
        assert!(TOGETHER || names.len() == 1, "several cells in one call");
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.pass().await;
        self.table.read(names).await
    }

    async fn swap(&self, swaps: &[Swap<'_, u64>], sure: bool) -> Result<Swapped<u64>, Error> {
        assert!(TOGETHER || swaps.len() == 1, "several cells in one call");
        self.swaps.fetch_add(1, Ordering::SeqCst);
        self.pass().await;
        let fault = self.fault.lock().unwrap().take();
        if let Some(Fault::Contended) = fault {
            self.fail_with(Fault::Contended);
            let names: Vec<Name> = swaps.iter().map(|swap| swap.name.clone()).collect();
            return Ok(Swapped::Lost(Some(self.table.read(&names).await?)));
        }
        if let Some(Fault::NotSent) = fault {
            return Err(Error::unavailable("not sent"));
        }
        let swapped = self.table.swap(swaps, sure).await?;
        match (fault, swapped) {
            (Some(_), _) => Err(Error::lost("no reply")),
            // Behaves like a store that does not return the cells of a lost swap.
            (None, Swapped::Lost(_)) if sure => Ok(Swapped::Lost(None)),
            (None, swapped) => Ok(swapped),
        }
    }

    async fn forget(&self, place: &[u8]) -> Result<(), Error> {
        self.table.forget(place).await
    }

    async fn check(&self) -> Result<(), Error> {
        self.table.check().await
    }
}
