//! Memcached as a store of tollgate: every algorithm and every operation, exact under concurrency.
