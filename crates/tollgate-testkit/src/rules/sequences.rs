//! Random sequences of every operation on several limits and keys: each answer equals that of the
//! pure functions in every field.

use crate::sequence::{Way, for_any_case};
use crate::subject::Subject;

/// Directly on the store, at times that go forward, stand still and go back: single operations,
/// several in one call, policies, several keys.
pub fn random_sequences_equal_the_definition<S: Subject>(subject: &S) {
    for_any_case(subject, 150, Way::Store);
}

/// The same through limiters, as users call it.
pub fn random_sequences_through_limiters_equal_the_definition<S: Subject>(subject: &S) {
    for_any_case(subject, 80, Way::Limiters);
}
