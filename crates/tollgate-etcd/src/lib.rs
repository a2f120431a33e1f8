//! etcd as a store of tollgate: every algorithm and every operation by transactions on revisions.
