//! The script: one for every algorithm and every operation.

use std::sync::OnceLock;

/// The source, joined from one file for each algorithm.
pub(crate) const TEXT: &str = concat!(
    include_str!("../lua/prelude.lua"),
    include_str!("../lua/fixed_window.lua"),
    include_str!("../lua/fixed_window_per_key.lua"),
    include_str!("../lua/elastic_window.lua"),
    include_str!("../lua/sliding_window.lua"),
    include_str!("../lua/moving_window.lua"),
    include_str!("../lua/level.lua"),
    include_str!("../lua/gcra.lua"),
    include_str!("../lua/main.lua"),
);

/// The hash by which servers know it.
pub(crate) fn hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| redis::Script::new(TEXT).get_hash().to_owned())
}
