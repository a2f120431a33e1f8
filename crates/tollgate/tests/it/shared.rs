//! Tests of deadlines, circuit breakers, remembered denials and fallbacks of a shared store. The
//! tests tell the store to fail, and control the clock and the timer.

mod breaker;
mod denials;
mod denials_are_true;
mod failing;
mod fallback;
mod waiting;
