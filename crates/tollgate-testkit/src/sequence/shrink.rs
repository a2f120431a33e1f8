//! Runs random cases, and shrinks one that fails.

use super::case::Case;
use super::replay::{Way, replay};
use crate::ground::Ground;
use crate::random::{Random, SEED, cases, seed};
use crate::subject::Subject;

/// Runs this many random cases, and reports the first that fails: its seed, its calls, and the
/// difference.
pub(crate) fn for_any_case<S: Subject>(subject: &S, usual: u64, way: Way) {
    let first = seed();
    let ground = Ground::new(subject);
    for n in 0..cases(usual) {
        let seed = first.wrapping_add(n);
        let case = Case::any(&mut Random::new(seed));
        if let Err(failure) = replay(&ground, &case, way) {
            let (case, failure) = shrunk(&ground, case, failure, way);
            let calls: Vec<String> = case.calls.iter().map(|call| format!("{call:?}")).collect();
            panic!("{failure}\nall calls:\n  {}\nagain with {SEED}={seed}", calls.join("\n  "));
        }
    }
}

/// Leaves out calls, later ones first, as long as the rest still fails.
fn shrunk<S: Subject>(
    ground: &Ground<'_, S>,
    mut case: Case,
    mut failure: String,
    way: Way,
) -> (Case, String) {
    for index in (0..case.calls.len()).rev() {
        let mut less = case.clone();
        let (tick, _) = less.calls.remove(index);
        // The time of the call still passes.
        if let Some((next, _)) = less.calls.get_mut(index) {
            *next = tick.and(*next);
        }
        if let Err(why) = replay(ground, &less, way) {
            (case, failure) = (less, why);
        }
    }
    (case, failure)
}
