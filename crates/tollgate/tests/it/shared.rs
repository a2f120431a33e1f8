//! Deadlines, breakers, remembered denials and fallbacks in front of a shared store. The store
//! fails on request, and the test controls the clock and the timer.

mod breaker;
mod denials;
mod denials_are_true;
mod failing;
mod fallback;
mod waiting;
