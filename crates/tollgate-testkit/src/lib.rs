//! What every store must hold to.
