//! Token bucket: tokens that are refilled steadily, up to the burst.
//!
//! **The simplest idea.** A bucket holds up to `b` tokens and starts full. A hit takes its cost in
//! tokens, or is denied. Tokens are refilled at `n` per period. A client that was quiet may send a
//! burst, and gets the steady rate after the burst.
//!
//! ```text
//! 2/second burst=3      0 ms     0 ms     0 ms     0 ms               500 ms   500 ms
//!   tokens left         2        1        0        0                  0        0
//!                       allow    allow    allow    deny, wait 500 ms  allow    deny, wait 500 ms
//! ```
//!
//! **Where it fails elsewhere.** Refilling by a timer, in whole seconds or in floats loses or mints
//! tokens; a clock that goes back and forth mints them too. **What mends it:** no timer. The state
//! is the number of missing tokens and its time, in exact parts of a token, and the refill is
//! computed when the key is used. It is the leaky bucket seen from the other side, tokens = burst -
//! level, so both share [`super::level`] and decide alike. Keeping the missing tokens rather than
//! those that are left also means that a raised burst takes effect immediately.
//!
//! **The bound.** At most `b + floor(d*n/p)` in any span `d`.
//!
//! **What it gives up.** After a pause the whole burst can come in one instant: choose `b` for what
//! the service behind can take.
//!
//! **The guard against time going back** is the time of the state.

pub use super::level::{Bucket as TokenBucket, LevelState};
