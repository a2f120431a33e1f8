//! Several servers share one limit, under more load than it allows, while connections and processes
//! fail. The clients count what was admitted.

mod fleet;
mod leased;
mod load;
mod missing;
mod replicated;
mod resets;
