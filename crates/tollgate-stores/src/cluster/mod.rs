//! Modes in front of a URL, and their settings in it.

mod leased;
mod replicated;

pub(crate) use leased::open as lease;
pub(crate) use replicated::open as replicate;
