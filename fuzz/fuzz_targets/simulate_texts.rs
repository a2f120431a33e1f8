//! No text makes the parsers of loads and retries panic. What they accept is printed and parsed
//! back, and can be run.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tollgate_simulate::{Group, Load, Retry, Simulation};

fuzz_target!(|texts: (&str, &str)| {
    let (load, retry) = (texts.0.parse::<Load>(), texts.1.parse::<Retry>());
    if let Ok(load) = load {
        assert_eq!(load.to_string().parse(), Ok(load));
    }
    if let Ok(retry) = retry {
        assert_eq!(retry.to_string().parse(), Ok(retry));
    }
    let (Ok(load), Ok(limit)) = (load, "3/second".parse()) else { return };
    let group = Group { load, retry: retry.unwrap_or_default(), ..Group::default() };
    // A millisecond, because a load may have a million requests in each.
    let simulation =
        Simulation { groups: vec![group], span: Duration::from_millis(1), ..Simulation::default() };
    let mut attempts = 0;
    // Stops counting, not running: a burst is bounded by its parser.
    let outcome = simulation.run(&limit, |_| attempts += 1);
    assert!(outcome.is_ok_and(|outcome| outcome.attempts == attempts));
});
