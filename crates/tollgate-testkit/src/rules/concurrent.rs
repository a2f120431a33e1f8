//! Exact totals under concurrent callers: threads with handles of their own, and calls in flight together on each.

use tollgate::Key;

use crate::executor::all;
use crate::ground::{Ground, Limited, START, YEAR, on_threads};
use crate::subject::Subject;

const THREADS: usize = 3;

/// Calls that each thread has in flight at once.
const IN_FLIGHT: usize = 8;

/// How many of `tries` hits pass, [`IN_FLIGHT`] of them at a time.
fn admitted_together<S: Subject>(limited: &Limited<'_, S>, key: impl Key, tries: u64) -> u64 {
    let (at, key) = (limited.inner.at(START), &key);
    let mut admitted = 0;
    let mut left = tries;
    while left > 0 {
        let now = left.min(IN_FLIGHT as u64);
        left -= now;
        let hits = limited.subject.block_on(all((0..now).map(|_| at.hit(key))));
        for hit in hits {
            admitted += u64::from(hit.unwrap_or_else(|error| panic!("{error}")).allowed());
        }
    }
    admitted
}

/// Many callers on one key: exactly the limit passes, and that is what is in use afterwards.
pub fn concurrent_callers_admit_exactly_the_limit<S: Subject>(subject: &S) {
    const QUOTA: u64 = 150;
    let ground = Ground::new(subject);
    for limited in ground.of_all(QUOTA, YEAR) {
        let limit = limited.limit();
        let admitted = on_threads(THREADS, |_| {
            let own = ground.again().limited(limit).expect("held a moment ago");
            admitted_together(&own, "key", QUOTA)
        });
        assert_eq!(admitted.iter().sum::<u64>(), QUOTA, "{limit}: admitted");
        assert_eq!(limited.usage(START, "key"), QUOTA, "{limit}: in use");
    }
}
