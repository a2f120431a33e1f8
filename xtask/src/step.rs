//! A named step of a run, with its duration.

use std::time::{Duration, Instant};

use crate::outcome::{Failure, Outcome};

pub(crate) fn step(name: &str, work: impl FnOnce() -> Outcome) -> Outcome {
    println!("\n==> {name}");
    let start = now();
    let outcome = work();
    let taken = seconds(now() - start);
    match outcome {
        Ok(()) => {
            println!("<== {name}: {taken}");
            Ok(())
        }
        Err(Failure::Because(reason)) => {
            Err(Failure::Because(format!("step `{name}` failed after {taken}: {reason}")))
        }
        Err(Failure::Printed) => Err(Failure::Printed),
    }
}

#[expect(clippy::disallowed_methods, reason = "the rule is for the library; this times a build")]
fn now() -> Instant {
    Instant::now()
}

fn seconds(duration: Duration) -> String {
    format!("{}.{} s", duration.as_secs(), duration.subsec_millis() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_step_is_named() {
        let outcome = step("clippy", || crate::outcome::because("2 warnings"));
        let Err(Failure::Because(reason)) = outcome else { panic!("must fail: {outcome:?}") };
        assert!(reason.starts_with("step `clippy` failed after"), "{reason}");
        assert!(reason.ends_with("2 warnings"), "{reason}");
    }

    #[test]
    fn seconds_have_one_digit() {
        assert_eq!(seconds(Duration::from_millis(61_990)), "61.9 s");
    }
}
