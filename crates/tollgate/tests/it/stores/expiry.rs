//! Tests that stores forget only fresh keys, so that no answer shows whether a store has cleaned.

use std::time::Duration;

use tollgate::Timestamp;

use super::sequences::{for_any_case, replay};
use super::{HOUR, START, Subject, admitted, limiter, limiters, store};

const TICK: Duration = Duration::from_micros(1);

pub(super) fn only_fresh_states_are_cleaned<S: Subject>() {
    for quota in [1, 3, 7] {
        let (store, clock) = store::<S>();
        for limited in limiters(&store, quota, HOUR) {
            let text = limited.limits()[0].to_string();
            for taken in 1..=quota {
                clock.set(START);
                let hit = limited.hit_n("key", taken);
                let fresh_at = hit.expires_at().expect("units are in use");
                clock.set(Timestamp::from_micros(fresh_at.as_micros() - 1));
                assert_eq!((store.sweep(), store.entries()), (0, 1), "{text}, {taken} taken");
                assert!(limited.peek("key").expires_at().is_some(), "{text}, {taken} taken");
                clock.advance(TICK);
                assert_eq!((store.sweep(), store.entries()), (1, 0), "{text}, {taken} taken");
                assert_eq!(limited.usage("key"), 0, "{text}, {taken} taken");
            }
        }
    }
}

/// Whether the state was cleaned or not, the answer to the next hit is that for a fresh key.
pub(super) fn an_expired_state_acts_as_a_fresh_one<S: Subject>() {
    let (store, clock) = store::<S>();
    for limited in limiters(&store, 3, HOUR) {
        let text = limited.limits()[0].to_string();
        for later in [0, 1, 17, 1_000_000] {
            clock.set(START);
            limited.clear();
            let _ = limited.hit_n("hit", 2);
            let _ = limited.refund("refunded", &limited.hit_n("refunded", 2));
            let _ = limited.refund_n("in part", limited.hit_n("in part", 2).charged() - 1);
            let _ = limited.set("set", 0);
            for key in ["hit", "refunded", "in part", "set"] {
                let fresh_at = START + limited.at(START).peek(key).reset_after();
                let now = fresh_at + later * TICK;
                let fresh = (later, "fresh", key);
                let (old, new) = (limited.at(now).hit(key), limited.at(now).hit(fresh));
                assert_eq!(old.expires_at(), new.expires_at(), "{text} {key}, {later} later");
                assert_eq!(
                    old.headline().receipt(),
                    new.headline().receipt(),
                    "{text} {key}, {later} later"
                );
                assert_eq!(old.remaining(), new.remaining(), "{text} {key}, {later} later");
            }
        }
    }
}

/// Traefik forgot a bucket after its period, long before it had refilled, and so admitted the whole
/// burst again.
pub(super) fn a_state_is_kept_until_it_equals_a_fresh_one<S: Subject>() {
    for algorithm in ["gcra", "token-bucket", "leaky-bucket"] {
        let (store, clock) = store::<S>();
        let limited = limiter(&store, &format!("1/second {algorithm} burst=100"));
        assert_eq!(admitted(&limited, "key", 200), 100);
        clock.advance(Duration::from_millis(2_200));
        assert_eq!(store.sweep(), 0);
        assert_eq!(admitted(&limited, "key", 200), 2, "{algorithm}");
        clock.advance(Duration::from_secs(50));
        assert_eq!(store.sweep(), 0);
        assert_eq!(admitted(&limited, "key", 200), 50, "{algorithm}");
        clock.advance(Duration::from_secs(101));
        assert_eq!(store.sweep(), 1);
        assert_eq!(admitted(&limited, "key", 200), 100, "{algorithm}");
    }
}

pub(super) fn cleaning_changes_no_answer<S: Subject>() {
    for_any_case(300, |case| replay::<S>(case, true));
}
