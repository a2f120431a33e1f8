//! Leaky bucket: a level that leaks steadily.
//!
//! **The simplest idea.** Every hit pours its cost into a bucket of capacity `b` that leaks `n`
//! units per period. A hit that would make it overflow is denied. The window algorithms let
//! everything through in one moment and nothing for the rest of the window; the bucket lets a burst
//! through, and after it as much as leaks.
//!
//! ```text
//! 2/second burst=3      0 ms     0 ms     0 ms     0 ms               500 ms   500 ms
//!   level after         1        2        3        3                  3        3
//!                       allow    allow    allow    deny, wait 500 ms  allow    deny, wait 500 ms
//! ```
//!
//! **Where it fails elsewhere.** A level in whole units or whole seconds leaks too little or too
//! much; a float drifts; a level that is read before it is leaked is out of date. This
//! implementation is exact at every microsecond: [`super::level`] contains the arithmetic.
//!
//! **The bound.** At most `b + floor(d*n/p)` in any span `d`.
//!
//! **What it gives up.** It denies hits that do not fit instead of queueing them. The name is also
//! used for a queue that drains steadily; [`crate::Limiter::wait`] behaves like one.
//!
//! **The guard against time going back** is the time of the level: a hit at an earlier time finds
//! the level as it was at the time of the state.

pub use super::level::{Bucket as LeakyBucket, LevelState};
