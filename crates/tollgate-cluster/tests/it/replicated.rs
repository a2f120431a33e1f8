//! Replicas on a bus of this process.

use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::shared::{HitItem, SharedLimiter};
use tollgate::{ErrorKind, KeyRef, Source, Timestamp};
use tollgate_cluster::bus::InMemory;
use tollgate_cluster::replicated::{OnMissing, Outgoing, Replica, Replicated, Settings};
use tollgate_testservers::calls::{eventually, limiter, run};

const LIMITS: [&str; 6] = [
    "10/hour fixed-window",
    "10/hour sliding-window",
    "10/hour moving-window",
    "10/hour gcra",
    "10/hour token-bucket",
    "10/hour leaky-bucket",
];

async fn fleet(nodes: usize) -> Vec<Replicated> {
    let bus = InMemory::new();
    let mut fleet = Vec::new();
    for _ in 0..nodes {
        fleet.push(Replicated::builder(bus.clone()).start().await.unwrap());
    }
    fleet
}

fn limiters(fleet: &[Replicated], limit: &str) -> Vec<SharedLimiter<Replicated>> {
    fleet.iter().map(|replica| limiter(replica, limit)).collect()
}

/// Waits until all report the same usage of a key.
async fn all_have(limiters: &[SharedLimiter<Replicated>], key: &str, used: u64) {
    eventually("all have the same usage", || async {
        for limiter in limiters {
            if limiter.usage(key).await.unwrap() != used {
                return false;
            }
        }
        true
    })
    .await;
}

#[test]
fn every_replica_counts_hits_admitted_by_another() {
    run(async {
        let fleet = fleet(3).await;
        for limit in LIMITS {
            let limiters = limiters(&fleet, limit);
            for limiter in &limiters {
                assert!(limiter.hit_n("a", 3).await.unwrap().allowed());
            }
            all_have(&limiters, "a", 9).await;
            let last = limiters[1].hit_n("a", 2).await.unwrap();
            assert!(!last.allowed() && last.source() == Source::Replica, "{limit}");
            assert!(limiters[2].hit("a").await.unwrap().allowed(), "{limit}");
        }
        let digests = fleet[0].digests();
        eventually("all agree", || async {
            fleet.iter().all(|replica| replica.digests() == fleet[0].digests())
        })
        .await;
        assert_ne!(digests, [0; 64]);
    });
}

#[test]
fn refunds_sets_and_resets_reach_all() {
    run(async {
        let fleet = fleet(2).await;
        for limit in LIMITS {
            let limiters = limiters(&fleet, limit);
            let hit = limiters[0].hit_n("a", 8).await.unwrap();
            all_have(&limiters, "a", 8).await;
            let back = limiters[0].refund_part("a", &hit, 5).await.unwrap();
            assert_eq!(back.used(), 3, "{limit}");
            all_have(&limiters, "a", 3).await;
            assert!(limiters[1].reset("a").await.unwrap(), "{limit}");
            all_have(&limiters, "a", 0).await;
            assert!(limiters[0].hit_n("a", 10).await.unwrap().allowed(), "{limit}");
            all_have(&limiters, "a", 10).await;
            assert_eq!(limiters[1].set("a", 4).await.unwrap().used(), 4, "{limit}");
            all_have(&limiters, "a", 4).await;
            limiters[1].clear().await.unwrap();
            all_have(&limiters, "a", 0).await;
        }
    });
}

#[test]
fn a_new_replica_has_the_counts_when_it_is_ready() {
    run(async {
        let bus = InMemory::new();
        let old = Replicated::builder(bus.clone()).start().await.unwrap();
        for limit in LIMITS {
            assert!(limiter(&old, limit).hit_n("a", 7).await.unwrap().allowed());
        }
        let new = Replicated::builder(bus).start().await.unwrap();
        new.wait_ready().await;
        for limit in LIMITS {
            assert_eq!(limiter(&new, limit).usage("a").await.unwrap(), 7, "{limit}");
        }
        assert_eq!((new.stats().peers, new.stats().missing), (1, 0));
    });
}

#[test]
fn a_replica_that_leaves_sends_all_counts_and_is_not_missing() {
    run(async {
        let fleet = fleet(2).await;
        let limiters = limiters(&fleet, "10/hour fixed-window");
        assert!(limiters[0].hit_n("a", 4).await.unwrap().allowed());
        fleet[0].leave().await;
        eventually("it has heard the goodbye", || async { fleet[1].stats().peers == 0 }).await;
        assert_eq!(limiters[1].usage("a").await.unwrap(), 4);
        assert_eq!(fleet[1].stats().missing, 0);
        // A node that has left may have admitted more than it sent to the others.
        let bound = limiters[1].hit("a").await.unwrap().bound();
        assert_eq!(bound, Some(10 - 4));
    });
}

/// A bus that ends as soon as it is joined.
struct Ended;

impl tollgate_cluster::bus::Bus for Ended {
    fn join(self, _actor: tollgate_cluster::replicated::Actor) -> tollgate_cluster::bus::Line {
        tollgate_cluster::bus::Line::new().0
    }
}

#[test]
fn without_a_bus_a_replica_decides_and_forgets() {
    run(async {
        let mut settings = Settings::default();
        settings.clean = Duration::from_millis(256);
        let replica = Replicated::builder(Ended).settings(settings).start().await.unwrap();
        let limiter = limiter(&replica, "2/second fixed-window");
        assert!(limiter.hit("a").await.unwrap().allowed());
        eventually("it is forgotten", || async { replica.stats().keys == 0 }).await;
        replica.leave().await;
    });
}

#[test]
fn limits_that_do_not_merge_are_refused_with_advice() {
    run(async {
        let replica = Replicated::builder(InMemory::new()).start().await.unwrap();
        for text in [
            "5/minute elastic-window",
            "5/minute fixed-window-per-key",
            "5/minute fixed-window charge-denied",
        ] {
            let error = replica.limiter(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
            assert!(error.to_string().contains("use "), "{error}");
        }
    });
}

#[test]
fn policies_and_groups_are_charged_all_or_none() {
    run(async {
        let fleet = fleet(2).await;
        let policy = fleet[0].limiter("2/minute; 3/hour fixed-window").unwrap();
        assert!(policy.hit_n("a", 2).await.unwrap().allowed());
        assert!(!policy.hit("a").await.unwrap().allowed());
        let hour = limiters(&fleet, "3/hour fixed-window");
        all_have(&hour, "a", 2).await;
    });
}

/// Two replicas without a clock and a bus.
struct Two {
    replicas: [Replica; 2],
    now: Timestamp,
}

impl Two {
    fn new(settings: &Settings) -> Two {
        let replicas = [Replica::new(1, settings.clone()), Replica::new(2, settings.clone())];
        let two = Two { replicas, now: Timestamp::from_micros(1_700_000_000_000_000) };
        for (from, to) in [(0, 1), (1, 0)] {
            let out = two.replicas[from].connected(two.now);
            two.carry(to, out);
        }
        two
    }

    fn carry(&self, to: usize, out: Vec<Outgoing>) {
        for message in out {
            let answers = self.replicas[to].receive(&message.bytes, self.now);
            self.carry(1 - to, answers);
        }
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        for (from, to) in [(0, 1), (1, 0)] {
            let out = self.replicas[from].tick(self.now);
            self.carry(to, out);
        }
    }

    /// Time passes for the first replica only; the other one is silent.
    fn pass_alone(&mut self, span: Duration) {
        let until = self.now + span;
        while self.now < until {
            self.now = self.now + Duration::from_millis(100);
            let _ = self.replicas[0].tick(self.now);
        }
    }
}

const KEY: KeyRef<'static> = KeyRef::plain(b"key");

#[test]
fn the_bound_counts_what_peers_may_have_admitted_unseen() {
    let mut two = Two::new(&Settings::default());
    let limit = "10/hour fixed-window".parse().unwrap();
    let limits = [0, 1].map(|node| two.replicas[node].prepare("", &limit).unwrap());
    two.pass(Duration::from_secs(1));
    let hit =
        |two: &Two, node: usize| two.replicas[node].apply(&limits[node], KEY, Op::Hit(1), two.now);
    assert_eq!(hit(&two, 0).bound(), Some(10));
    two.pass(Duration::from_millis(20));
    // One of the other replica's ten units is known.
    assert_eq!(hit(&two, 1).bound(), Some(9));
    assert_eq!(two.replicas[1].stats(two.now).bound, 10);
    // A replica that never met a peer knows all units.
    let alone = Replica::new(3, Settings::default());
    let prepared = alone.prepare("", &limit).unwrap();
    assert_eq!(alone.apply(&prepared, KEY, Op::Hit(1), two.now).bound(), Some(0));
}

#[test]
fn a_known_peak_makes_the_bound_smaller() {
    let mut settings = Settings::default();
    settings.peak = Some(100);
    let mut two = Two::new(&settings);
    let limit = two.replicas[0].prepare("", &"1000/hour".parse().unwrap()).unwrap();
    two.pass(Duration::from_secs(1));
    two.pass(Duration::from_secs(1));
    let bound = two.replicas[0].apply(&limit, KEY, Op::Hit(1), two.now).bound();
    // At most a heartbeat and a flush passed without a message.
    assert!(bound.is_some_and(|bound| (1..=102).contains(&bound)), "{bound:?}");
}

#[test]
fn while_peers_are_missing_on_missing_applies() {
    for on_missing in [OnMissing::GoOn, OnMissing::Share, OnMissing::Closed] {
        let mut settings = Settings::default();
        settings.on_missing = on_missing;
        let mut two = Two::new(&settings);
        let limit = two.replicas[0].prepare("", &"10/hour fixed-window".parse().unwrap()).unwrap();
        two.pass(Duration::from_secs(1));
        let hits = |two: &Two, key: &[u8]| {
            let hit = || two.replicas[0].apply(&limit, KeyRef::plain(key), Op::Hit(1), two.now);
            (0..20).map(|_| hit()).filter(tollgate::Outcome::allowed).count()
        };
        assert_eq!(hits(&two, b"before"), 10);
        two.pass_alone(Duration::from_secs(5));
        assert_eq!(two.replicas[0].stats(two.now).missing, 1);
        let expected = match on_missing {
            OnMissing::GoOn => 10,
            OnMissing::Share => 5,
            _ => 0,
        };
        assert_eq!(hits(&two, b"meanwhile"), expected, "{on_missing:?}");
        let take = two.replicas[0].apply(&limit, KeyRef::plain(b"take"), Op::Take(9), two.now);
        assert_eq!(take.charged(), [9, 5, 0][on_missing as usize], "{on_missing:?}");
        let hit = |key, cost| HitItem { prepared: &limit, key: KeyRef::plain(key), cost };
        let hits_together = [hit(&b"take"[..], 5), hit(b"other", 1)];
        let together = two.replicas[0].together(&hits_together, two.now);
        assert!(together.iter().any(|decision| !decision.allowed()), "{on_missing:?}");
        // The peer comes back, and everything is as before.
        two.pass(Duration::from_secs(2));
        two.pass(Duration::from_secs(2));
        assert_eq!(hits(&two, b"after"), 10, "{on_missing:?}");
    }
}

#[test]
fn beyond_the_bound_on_keys_unknown_ones_share_a_counter() {
    let mut settings = Settings::default();
    settings.max_keys = 2;
    let mut two = Two::new(&settings);
    let limit = "3/hour fixed-window".parse().unwrap();
    let limits = [0, 1].map(|node| two.replicas[node].prepare("", &limit).unwrap());
    two.pass(Duration::from_secs(1));
    let hit = |two: &Two, node: usize, key: &[u8]| {
        two.replicas[node].apply(&limits[node], KeyRef::plain(key), Op::Hit(1), two.now)
    };
    for key in [b"a", b"b"] {
        assert_eq!(hit(&two, 0, key).source(), Source::Replica);
    }
    for key in [b"c", b"d", b"e"] {
        let decision = hit(&two, 0, key);
        assert_eq!((decision.allowed(), decision.source()), (true, Source::Overflow));
    }
    assert!(!hit(&two, 0, b"f").allowed());
    assert!(hit(&two, 0, b"a").allowed());
    // The other replicas count with it, and their unknown keys use it while it matters.
    two.pass(Duration::from_millis(100));
    assert!(!hit(&two, 1, b"g").allowed());
    assert_eq!(two.replicas[0].stats(two.now).keys, 2);
}

#[test]
fn counts_that_no_longer_matter_are_forgotten() {
    let mut settings = Settings::default();
    settings.clean = Duration::from_millis(256);
    let mut two = Two::new(&settings);
    for limit in ["5/second fixed-window", "5/second", "5/second moving-window"] {
        let limit = two.replicas[0].prepare("", &limit.parse().unwrap()).unwrap();
        for key in 0..50u8 {
            let _ = two.replicas[0].apply(&limit, KeyRef::plain(&[key]), Op::Charge(20), two.now);
        }
    }
    two.pass(Duration::from_millis(100));
    assert_eq!(two.replicas[1].stats(two.now).keys, 150);
    for _ in 0..2000 {
        two.pass(Duration::from_millis(10));
    }
    for replica in &two.replicas {
        assert_eq!((replica.stats(two.now).keys, replica.digests(two.now)), (0, [0; 64]));
    }
}

#[test]
fn an_invalid_message_is_counted_and_ignored() {
    let two = Two::new(&Settings::default());
    assert_eq!(two.replicas[0].receive(b"\x01garbage", two.now), []);
    assert_eq!(two.replicas[0].receive(b"", two.now), []);
    assert_eq!(two.replicas[0].stats(two.now).ignored, 2);
}

#[test]
fn counts_of_a_wrong_clock_are_ignored() {
    let mut two = Two::new(&Settings::default());
    let limit = "5/second fixed-window".parse().unwrap();
    let limits = [0, 1].map(|node| two.replicas[node].prepare("", &limit).unwrap());
    two.pass(Duration::from_secs(1));
    let ahead = two.now + Duration::from_secs(3600);
    let _ = two.replicas[0].apply(&limits[0], KEY, Op::Charge(5), ahead);
    two.pass(Duration::from_millis(20));
    assert_eq!(two.replicas[1].stats(two.now).ahead, 1);
    assert!(two.replicas[1].apply(&limits[1], KEY, Op::Hit(5), two.now).allowed());
}
