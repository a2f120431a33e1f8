//! Compares answers with the expected ones.

use std::time::Duration;

use tollgate::{Error, Outcome};

use crate::ground::DEADLINE;

pub(super) type Checked = Result<(), String>;

/// A remembered denial belongs to an earlier state: units may have been added since, none given
/// back. So it must be a denial that ends no later than the store's.
pub(super) fn remembered(got: &[Outcome], wanted: &[Outcome]) -> Checked {
    let refused = |decisions: &[Outcome]| !decisions.iter().all(Outcome::allowed);
    let wait = |decisions: &[Outcome]| {
        decisions.iter().map(|d| d.retry_after().unwrap_or(Duration::MAX)).max()
    };
    if refused(got) && refused(wanted) && wait(got) <= wait(wanted) {
        return Ok(());
    }
    Err(format!("remembered {got:?}\nwanted     {wanted:?}"))
}

pub(super) fn in_time<T>(answer: Result<T, Error>) -> Result<T, String> {
    answer.map_err(|error| format!("no answer within {DEADLINE:?}: {error}"))
}

#[expect(clippy::needless_pass_by_value, reason = "arguments as of assert_eq")]
pub(super) fn equal<T: PartialEq + std::fmt::Debug>(got: T, wanted: T) -> Checked {
    if got == wanted { Ok(()) } else { Err(format!("got {got:?}, wanted {wanted:?}")) }
}
