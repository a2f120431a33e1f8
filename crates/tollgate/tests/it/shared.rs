//! What stands between callers and a store that waits: deadlines, breakers, remembered denials,
//! fallbacks. On a store that fails when told to, with a clock and a timer in the hands of the
//! test.

mod breaker;
mod denials;
mod denials_are_true;
mod failing;
mod fallback;
mod waiting;
