//! What a store does not claim, as tests that say so: a capability that is there must be claimed,
//! else its rules would not run.

use tollgate::Key;

use crate::ground::{Ground, limit};
use crate::subject::Subject;

/// Claim `lifetime`.
pub fn lifetime<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let limit = limit("1/hour");
    let kept = "key".with_key(|key| subject.kept(&ground.namespace, &limit, key));
    assert_eq!(kept, None, "Subject::kept can tell: claim `lifetime`");
}

/// Claim `processes`.
pub fn processes<S: Subject>(subject: &S) {
    assert_eq!(subject.address(), None, "Subject::address is there: claim `processes`");
}

/// Claim `outage`.
pub fn outage<S: Subject>(subject: &S) {
    assert!(!subject.break_store(), "Subject::break_store works: claim `outage`");
}
