//! Plain hits: several hits on one key are decided in one step, and equal the definition.

use std::time::Duration;

use tollgate::algorithm::{AnyMachine, AnyState, Op};
use tollgate::shared::{Ask, SharedStore};
use tollgate::{KeyRef, Limit, Outcome, Timestamp};

use crate::client::{admitted, limiter, patient, run, session};
use crate::servers::Server;

/// Everything that a caller can read of a decision.
fn public_parts(decision: &Outcome) -> impl PartialEq + std::fmt::Debug + use<> {
    (decision.allowed(), decision.charged(), decision.fields(), decision.now(), decision.source())
}

/// Pseudorandom numbers, the same in every run.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn batched_hits_are_decided_as_if_one_after_another() {
    const KEYS: [&str; 4] = ["a", "b", "c", "d"];
    run(async {
        let server = Server::start();
        let store = patient(server.url()).await;
        for text in
            ["7/second burst=5", "10/second", "3/minute burst=40", "1/hour", "999983/3 seconds"]
        {
            let limit: Limit = text.parse().unwrap();
            let prepared = store.prepare("together", &limit).unwrap();
            let machine = AnyMachine::new(&limit);
            let mut states: [Option<AnyState>; 4] = [const { None }; 4];
            let mut random = numbers(text.len() as u64);
            let mut now = 1_790_000_000_000_000_u64;
            for turn in 0..150 {
                now = (now + random(900_000)).saturating_sub(random(2) * random(300_000));
                let at = Timestamp::from_micros(now);
                let part = |_| (random(4) as usize, 1 + random(3));
                let parts: Vec<(usize, u64)> = (0..1 + turn % 9).map(part).collect();
                let ask = |(key, cost): &(usize, u64)| {
                    let key = KeyRef::plain(KEYS[*key].as_bytes());
                    Ask { prepared: &prepared, key, op: Op::Hit(*cost) }
                };
                let asks: Vec<_> = parts.iter().map(ask).collect();
                let got = store.ask_each(&asks, Some(at), Duration::MAX).await.unwrap();
                let hit = |(key, cost): &(usize, u64)| {
                    machine.apply(&mut states[*key], at, Op::Hit(*cost))
                };
                let wanted: Vec<Outcome> = parts.iter().map(hit).collect();
                let [got, wanted] =
                    [got, wanted].map(|all| all.iter().map(public_parts).collect::<Vec<_>>());
                assert_eq!(got, wanted, "{text}, turn {turn}: {parts:?}");
            }
        }
    });
}

#[test]
fn a_denied_hit_writes_nothing() {
    run(async {
        let server = Server::start();
        let store = patient(server.url()).await;
        let limited = limiter(&store, "5/365 days");
        assert_eq!(admitted(&limited, "key", 5).await, 5);
        let looking = session(&server.url()).await;
        let version = || async {
            let sql = "SELECT xmin::text, ctid::text FROM tollgate.counters";
            let row = looking.query_one(sql, &[]).await.unwrap();
            (row.get::<_, String>(0), row.get::<_, String>(1))
        };
        let before = version().await;
        let denied = limited.hit_each(&["key"; 20]).await.unwrap();
        assert!(denied.iter().all(|decision| !decision.allowed()));
        assert_eq!(version().await, before);
    });
}
