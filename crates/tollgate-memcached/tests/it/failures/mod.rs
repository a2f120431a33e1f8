//! Failures that the rules of an outage in the suite do not cover.

mod connecting;
mod fake;
mod garbage;
mod memory;
mod one_of_several;
mod overload;
mod restart;
mod values;
