//! No text makes the parser panic, and every accepted text is printed as a text with the same
//! meaning.

#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use tollgate::{Limit, Policy};

fuzz_target!(|text: &str| {
    round_trip::<Limit>(text);
    round_trip::<Policy>(text);
});

fn round_trip<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    let Ok(value) = text.parse::<T>() else { return };
    let printed = value.to_string();
    let again = printed.parse::<T>().ok();
    assert_eq!(again.as_ref(), Some(&value), "{text:?} was printed as {printed:?}");
}
