//! The conformance suite, on cells that one swap changes together and on cells that change one at a
//! time. Each store of the suite has its own queues and cache, so they race.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tollgate_cas::{Cas, Table};
use tollgate_testkit::{Subject, conformance};

struct OnTable<const TOGETHER: bool> {
    table: Arc<Table<TOGETHER>>,
    cached_cells: usize,
    runtime: Runtime,
}

impl<const TOGETHER: bool> OnTable<TOGETHER> {
    fn new(cached_cells: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .expect("a runtime");
        OnTable { table: Arc::default(), cached_cells, runtime }
    }
}

impl<const TOGETHER: bool> Subject for OnTable<TOGETHER> {
    type Store = Cas<Arc<Table<TOGETHER>>>;

    fn store(&self) -> Self::Store {
        let _runtime = self.runtime.enter();
        let builder = Cas::builder(Arc::clone(&self.table)).remember(self.cached_cells);
        builder.build().unwrap_or_else(|error| panic!("{error}"))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

conformance!(together, || OnTable::<true>::new(1000));
conformance!(one_by_one, || OnTable::<false>::new(1000));
conformance!(without_cache, || OnTable::<false>::new(0));
