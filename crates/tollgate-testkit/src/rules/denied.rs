//! Calls that must leave no trace in the state.

use tollgate::algorithm::Op;
use tollgate::{Algorithm, Outcome, Timestamp};

use crate::beside::Straight;
use crate::ground::{Ground, HOUR, START, TICK, before, limit};
use crate::model::same;
use crate::subject::Subject;

/// Compares two keys with the same history after `f` was done to the second: no later call, at any
/// cost, may show a difference.
fn leaves_no_trace<S: Subject>(
    store: &Straight<'_, '_, S>,
    name: &str,
    f: impl Fn(&str, Timestamp) -> Option<Outcome>,
) {
    let limit = &store.limit;
    let (plain, touched) = (format!("{name} plain"), format!("{name} touched"));
    for key in [&plain, &touched] {
        let _ = store.apply(START, key, Op::Hit(2));
        let _ = store.apply(START + HOUR / 7, key, Op::Hit(1));
    }
    for step in 0..6 {
        f(&touched, START + HOUR / 7 + step * (HOUR / 100));
    }
    let begin = START + HOUR / 7 + 6 * (HOUR / 100);
    let fresh_at = begin + store.apply(begin, &plain, Op::Peek(1)).reset_after();
    let mut times: Vec<Timestamp> = (0..12).map(|n| begin + n * (HOUR / 5)).collect();
    times.extend([before(fresh_at, TICK), fresh_at, fresh_at + TICK]);
    for now in times {
        for cost in [0, 1, 2, 3, 4] {
            let seen = |key: &str| store.apply(now, key, Op::Peek(cost));
            if let Err(difference) = same(&[seen(&touched)], &[seen(&plain)]) {
                panic!("{limit}: {name} left a trace, cost {cost} at {now}\n{difference}");
            }
        }
    }
}

/// A denied hit costs nothing and changes nothing, compared in every field, for many costs and at
/// many later times.
pub fn a_denied_hit_leaves_the_state_equal<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for algorithm in Algorithm::PERIODIC {
        // Every attempt pushes its window, by definition.
        if algorithm == Algorithm::ElasticWindow {
            continue;
        }
        let limit = limit(&format!("3/hour {algorithm}"));
        let Some(store) = Straight::new(&ground, &limit) else { continue };
        leaves_no_trace(&store, "a denied hit", |key, now| {
            let denied = store.apply(now, key, Op::Hit(3));
            assert!(!denied.allowed() && denied.charged() == 0, "{limit}");
            Some(denied)
        });
        leaves_no_trace(&store, "a hit that never fits", |key, now| {
            let denied = store.apply(now, key, Op::Hit(4));
            assert_eq!((denied.allowed(), denied.retry_after()), (false, None), "{limit}");
            Some(denied)
        });
    }
}

/// A peek changes nothing, whatever its cost, and pushes no elastic window.
pub fn a_peek_changes_nothing<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for algorithm in Algorithm::PERIODIC {
        let limit = limit(&format!("3/hour {algorithm}"));
        let Some(store) = Straight::new(&ground, &limit) else { continue };
        leaves_no_trace(&store, "a peek", |key, now| {
            let _ = store.apply(now, key, Op::Peek(1));
            let _ = store.apply(now + HOUR, key, Op::Peek(u64::MAX));
            Some(store.apply(now, key, Op::Peek(3)))
        });
    }
}
