//! Several servers with one limit, under more load than it allows, while everything around them
//! breaks. What passes is counted outside.

mod fleet;
mod leased;
mod load;
mod missing;
mod replicated;
