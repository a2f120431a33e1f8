//! Tests for capabilities that a store does not claim. A store that has the capability must claim
//! it, else its rules would not run.

use tollgate::Key;
use tollgate::shared::SharedStore as _;

use crate::ground::{Ground, limit};
use crate::subject::Subject;

/// Checks that a store without the claim `lifetime` does not report the lifetime of a key.
pub fn lifetime<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let limit = limit("1/hour");
    let kept = "key".with_key(|key| subject.kept(&ground.namespace, &limit, key));
    assert_eq!(kept, None, "Subject::kept can tell: claim `lifetime`");
}

/// Checks that a store without the claim `processes` has no address for other processes.
pub fn processes<S: Subject>(subject: &S) {
    assert_eq!(subject.address(), None, "Subject::address is there: claim `processes`");
}

/// Checks that a store without the claim `holds` refuses holds, and names a store that can.
pub fn holds<S: Subject>(subject: &S) {
    let refused = subject.store().keeps_holds().expect_err("it keeps holds: claim `holds`");
    assert!(refused.to_string().contains("Memory can"), "{refused}");
}

/// Checks that a store without the claim `outage` cannot be broken on purpose.
pub fn outage<S: Subject>(subject: &S) {
    assert!(!subject.break_store(), "Subject::break_store works: claim `outage`");
}
