//! State lives at least until it equals a fresh one, and is deleted in the end. Claimed by
//! `lifetime`.

use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::{Clock, Decision, Error, Key, SystemClock};

use crate::ground::{Ground, HOUR, Limited};
use crate::subject::{Kept, Subject};

/// Cases in which libraries forgot too early: periods below a second, periods beyond thirty days,
/// refills longer than the period.
const LIMITS: [&str; 22] = [
    "5/millisecond",
    "5/100 ms fixed-window",
    "5/1500 ms fixed-window-per-key",
    "5/1500 ms sliding-window",
    "5/1500 ms moving-window",
    "5/1500 ms elastic-window",
    "1/second burst=100",
    "1/second token-bucket burst=100",
    "1/second leaky-bucket burst=100",
    "7/second burst=3",
    "100/minute",
    "100/hour fixed-window",
    "100/hour fixed-window-per-key charge-denied",
    "100/hour sliding-window",
    "100/hour moving-window",
    "100/31 days",
    "100/31 days fixed-window",
    "100/31 days sliding-window",
    "100/365 days moving-window",
    "100/365 days token-bucket",
    "100/365 days elastic-window",
    "1/36500 days burst=10",
];

/// Beyond this, no store must be able to count down.
const LONGEST_TTL: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// The remaining lifetime after a call, by the store's own clock, and how long the call and the
/// query for the lifetime took together.
fn after<S: Subject>(
    ground: &Ground<'_, S>,
    limited: &Limited<'_, S>,
    key: &str,
    call: impl Future<Output = Result<Decision, Error>>,
) -> (Decision, Kept, Duration) {
    let clock = SystemClock::new();
    let begin = clock.now();
    let decision = limited.must(call);
    let kept = key.with_key(|key| ground.subject.kept(&ground.namespace, limited.limit(), key));
    let kept = kept.expect("`lifetime` is claimed, but Subject::kept cannot tell");
    (decision, kept, clock.now().since(begin))
}

/// The calls that leave a state behind, each on its own key.
fn for_each_state<S: Subject>(subject: &S, check: impl Fn(&str, &Decision, Kept, Duration)) {
    let ground = Ground::new(subject);
    for limited in ground.of_texts(LIMITS) {
        let (call, limit) = (&limited.inner, limited.limit());
        let capacity = limited.must(call.peek("none")).limit();
        let all = [
            ("hit", Op::Hit(1)),
            ("drained", Op::Hit(capacity)),
            ("taken", Op::Take(u64::MAX)),
            ("charged beyond", Op::Charge(capacity * 3)),
            ("set", Op::Set(capacity)),
        ];
        for (key, op) in all {
            let done = async {
                match op {
                    Op::Hit(cost) => call.hit_n(key, cost).await,
                    Op::Take(cost) => call.take(key, cost).await,
                    Op::Charge(units) => call.charge(key, units).await,
                    _ => call.set(key, capacity).await,
                }
            };
            let (decision, kept, took) = after(&ground, &limited, key, done);
            check(&format!("{limit}: {key}"), &decision, kept, took);
        }
        // Denied, then partly given back: the remaining state counts.
        let (decision, kept, took) = after(&ground, &limited, "drained", call.hit("drained"));
        check(&format!("{limit}: denied"), &decision, kept, took);
        let back = call.refund_n("taken", capacity / 2);
        let (decision, kept, took) = after(&ground, &limited, "taken", back);
        check(&format!("{limit}: given back"), &decision, kept, took);
    }
}

/// A TTL covers the time until the state equals a fresh one: the refill of a bucket, both windows
/// of a sliding window, units charged beyond the limit.
pub fn state_lives_until_it_equals_a_fresh_one<S: Subject>(subject: &S) {
    for_each_state(subject, |what, decision, kept, took| {
        let needed = decision.reset_after();
        let kept = match kept {
            Kept::Nothing => Duration::ZERO,
            Kept::For(span) => span,
            Kept::ForEver => return,
        };
        // The TTL has counted down by the same time.
        assert!(kept + took >= needed, "{what}: kept for {kept:?}, needed for {needed:?}");
    });
}

/// The lifetime ends: within twice the needed time and an hour, which leaves room for rounding,
/// clocks and coarse timers. A state that matters for more than a century may stay.
pub fn state_does_not_live_for_ever<S: Subject>(subject: &S) {
    for_each_state(subject, |what, decision, kept, _| {
        let most = decision.reset_after() * 2 + HOUR;
        match kept {
            Kept::Nothing => {}
            Kept::For(span) => assert!(span <= most, "{what}: kept for {span:?}, {most:?} do"),
            Kept::ForEver => assert!(most > LONGEST_TTL * 2, "{what}: kept for ever"),
        }
    });
}

/// Nothing is kept of a key that was only peeked at or denied, or that is fresh again after a
/// refund, a set, a reset or a clear.
pub fn fresh_keys_take_no_room<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for limited in ground.of_all(3, HOUR) {
        let (call, limit) = (&limited.inner, limited.limit());
        let check = |key: &str, done: Decision| {
            let (done, kept, _) = after(&ground, &limited, key, std::future::ready(Ok(done)));
            // After a full refund a window stays open until it ends.
            if done.expires_at().is_none() {
                assert_eq!(kept, Kept::Nothing, "{limit}: {key}");
            }
        };
        check("looked at", limited.must(call.peek("looked at")));
        check("refused", limited.must(call.hit_n("refused", 4)));
        let hit = limited.must(call.hit_n("given back", 2));
        check("given back", limited.must(call.refund("given back", &hit)));
        let _ = limited.must(call.hit_n("set to nothing", 2));
        check("set to nothing", limited.must(call.set("set to nothing", 0)));
        let _ = limited.must(call.hit_n("reset", 2));
        assert!(limited.must(call.reset("reset")), "{limit}");
        check("reset", limited.must(call.peek("reset")));
        let _ = limited.must(call.hit_n("cleared", 2));
        limited.must(call.clear());
        check("cleared", limited.must(call.peek("cleared")));
    }
}
