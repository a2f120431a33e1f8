//! Any store with compare-and-swap as a store of tollgate: every algorithm, exact, with what waits on one key decided in one swap.
