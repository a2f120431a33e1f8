//! PostgreSQL as a store of tollgate: every algorithm and every operation, batched into one statement.
