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
//! much; a float drifts; a level that is read before it is leaked is out of date. Ours is exact at
//! every microsecond: [`super::level`] has the arithmetic.
//!
//! **The bound.** At most `b + floor(d*n/p)` in any span `d`.
//!
//! **What it gives up.** It denies what does not fit instead of queueing it: the name is also used
//! for a queue that drains steadily, which is what [`crate::Limiter::wait`] makes of it.
//!
//! **The guard against time going back** is the time of the level: a hit from before it finds the
//! level as it was then.

pub use super::level::{Level as LeakyBucket, LevelState};
