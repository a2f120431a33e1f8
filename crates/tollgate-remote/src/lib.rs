//! What stores of [`tollgate`] behind a network share, so that each of them says only what is its
//! own.

mod runtime;

pub use runtime::Tokio;
