//! Adds up the results that the test runner prints.

use std::fmt;

use crate::outcome::{Outcome, because};

#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// Tests that printed SKIPPED and returned. The runner counts them as passed.
    gave_up: u64,
}

impl Tally {
    /// Reads one line of the runner's output.
    pub(crate) fn hear(&mut self, line: &str) {
        // With one test thread the runner has already written the test's name, and the word follows
        // it.
        let gave_up = line.starts_with("SKIPPED")
            || (line.starts_with("test ") && line.contains(" ... SKIPPED"));
        if let Some(result) = line.strip_prefix("test result:") {
            self.passed += number_before("passed", result);
            self.failed += number_before("failed", result);
            self.ignored += number_before("ignored", result);
        } else if gave_up {
            self.gave_up += 1;
        }
    }

    pub(crate) fn one_passed(&mut self) {
        self.passed += 1;
    }

    /// Counts a step that failed without a failed test, for example because it does not compile.
    pub(crate) fn at_least_one_failed(&mut self) {
        self.failed = self.failed.max(1);
    }

    pub(crate) fn passed(&self) -> u64 {
        self.passed.saturating_sub(self.gave_up)
    }

    fn skipped(&self) -> u64 {
        self.ignored + self.gave_up
    }

    /// Whether the run succeeded. Runners also report failures by their exit code; this does not
    /// rely on it.
    pub(crate) fn verdict(&self, in_ci: bool) -> Outcome {
        if self.failed > 0 {
            return because(format!("{} tests failed", self.failed));
        }
        if in_ci && self.skipped() > 0 {
            return because(format!(
                "{} tests were skipped, which CI does not allow",
                self.skipped()
            ));
        }
        Ok(())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed(), self.failed)?;
        if self.skipped() > 0 {
            write!(f, ", {} skipped", self.skipped())?;
        }
        Ok(())
    }
}

/// The 12 of `ok. 12 passed; 0 failed`.
fn number_before(word: &str, result: &str) -> u64 {
    result
        .split([';', '.'])
        .find_map(|part| part.trim().strip_suffix(word)?.trim_end().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        for line in lines {
            tally.hear(line);
        }
        tally
    }

    #[test]
    fn results_of_all_binaries_are_summed() {
        let tally = tally(&[
            "running 3 tests",
            "test a ... ok",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.06s",
            "test result: \u{1b}[31mFAILED\u{1b}(B\u{1b}[m. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s",
        ]);
        assert_eq!(tally.to_string(), "15 passed, 2 failed");
        assert!(tally.verdict(false).is_err());
    }

    #[test]
    fn skipped_test_is_not_a_passed_one_and_fails_ci() {
        let tally = tally(&[
            "SKIPPED a: no server",
            "test b ... SKIPPED b: no server",
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ]);
        assert_eq!(tally.to_string(), "3 passed, 0 failed, 3 skipped");
        assert!(tally.verdict(false).is_ok());
        assert!(tally.verdict(true).is_err());
    }

    #[test]
    fn failed_step_never_reads_as_no_failure() {
        let mut tally = Tally::default();
        tally.at_least_one_failed();
        assert_eq!(tally.to_string(), "0 passed, 1 failed");
    }
}
