//! Clocks of different machines.

use std::sync::Arc;
use std::time::Duration;

use tollgate::shared::SharedLimiter;
use tollgate::{ErrorKind, ManualClock, Timestamp};

use tollgate_testkit::Random;

use crate::watched::{Store, Watched, builder, limiter};

const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

fn machine(cells: &Arc<Watched<false>>, ahead: Duration) -> (Store<false>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(START + ahead));
    (builder(cells).clock(Arc::clone(&clock)).build().unwrap(), clock)
}

#[tokio::test]
async fn a_clock_ahead_by_at_most_the_skew_is_followed() {
    let cells = Watched::<false>::new();
    let (fast, _) = machine(&cells, Duration::from_secs(10));
    let (slow, _) = machine(&cells, Duration::ZERO);
    let (fast, slow) = (limiter(&fast, "3/minute"), limiter(&slow, "3/minute"));
    assert!(fast.hit("key").await.unwrap().allowed());
    assert!(slow.hit("key").await.unwrap().allowed());
    // The retry time is the one of the fast clock.
    let denied = slow.hit_n("key", 2).await.unwrap();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(20)));
}

#[tokio::test]
async fn a_state_further_ahead_is_a_clock_error_until_its_time_comes() {
    let cells = Watched::<false>::new();
    let (fast, _) = machine(&cells, Duration::from_secs(11));
    let (slow, clock) = machine(&cells, Duration::ZERO);
    // The GCRA state lies hours ahead because of the burst. That is not a clock error.
    let (fast, slow) = (limiter(&fast, "1/hour burst=9"), limiter(&slow, "1/hour burst=9"));
    assert!(fast.hit_n("key", 9).await.unwrap().allowed());
    for error in [slow.hit("key").await.unwrap_err(), slow.peek("key").await.unwrap_err()] {
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, true), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("11s ahead of this machine's clock, at most 10s is allowed"),
            "{text}"
        );
    }
    clock.set(START + Duration::from_secs(1));
    assert!(!slow.hit("key").await.unwrap().allowed());
    // With a time given by the caller, clocks do not matter.
    assert!(!slow.at(START).hit("key").await.unwrap().allowed());
}

/// Machines that share one limit, each with its clock ahead by a given time.
struct Fleet {
    limiters: Vec<SharedLimiter<Store<false>>>,
    clocks: Vec<Arc<ManualClock>>,
    /// Admitted hits of each machine.
    admitted: Vec<u64>,
}

impl Fleet {
    fn new(limit: &str, ahead: &[Duration]) -> Fleet {
        let cells = Watched::<false>::new();
        let (stores, clocks): (Vec<_>, Vec<_>) =
            ahead.iter().map(|ahead| machine(&cells, *ahead)).unzip();
        let limiters: Vec<_> = stores.iter().map(|store| limiter(store, limit)).collect();
        Fleet { admitted: vec![0; limiters.len()], limiters, clocks }
    }

    fn advance(&self, span: Duration) {
        self.clocks.iter().for_each(|clock| clock.advance(span));
    }

    async fn hit(&mut self, machine: usize) {
        let hit = self.limiters[machine].hit("key").await.unwrap();
        self.admitted[machine] += u64::from(hit.allowed());
    }
}

#[tokio::test]
async fn a_clock_that_is_ahead_does_not_take_the_share_of_others() {
    let mut random = Random::new(7);
    for ahead in [0, 300, 2_000, 10_000].map(Duration::from_millis) {
        let mut fleet = Fleet::new("100/second burst=20", &[ahead, Duration::ZERO, Duration::ZERO]);
        // Each machine hits about 40 times a second, for 20 seconds.
        for _ in 0..2_400 {
            fleet.hit(random.below(3) as usize).await;
            fleet.advance(Duration::from_micros(25_000 / 3));
        }
        let total: u64 = fleet.admitted.iter().sum();
        let most = 2_000 + 20 + ahead.as_millis() as u64 / 10;
        assert!((1_950..=most).contains(&total), "{ahead:?}: {:?}", fleet.admitted);
        assert!(
            fleet.admitted.iter().all(|share| *share >= 500),
            "{ahead:?}: {:?}",
            fleet.admitted
        );
    }
}

#[tokio::test]
async fn clock_differences_exceed_the_limit_by_the_skew_at_most() {
    let mut random = Random::new(7);
    // Each limit, and how many hits it admits at most in a span of milliseconds.
    type Bound = fn(u64) -> u64;
    let limits: [(&str, Bound); 6] = [
        ("100/second burst=20", |span| 20 + span / 10),
        ("100/second token-bucket burst=20", |span| 20 + span / 10),
        ("100/second leaky-bucket burst=20", |span| 20 + span / 10),
        ("50/second fixed-window", |span| 50 * (span.div_ceil(1_000) + 1)),
        ("50/second moving-window", |span| 50 * span.div_ceil(1_000)),
        ("50/second sliding-window", |span| 50 * (span.div_ceil(1_000) + 1)),
    ];
    for case in 0..60 {
        let (limit, bound) = limits[case % limits.len()];
        let skew = random.below(10_000);
        let ahead = [0, random.below(skew + 1), skew].map(Duration::from_millis);
        let mut fleet = Fleet::new(limit, &ahead);
        let mut span = 0;
        let mut active = 3;
        for _ in 0..1_500 {
            if random.below(200) == 0 {
                // Now and then some machines are idle for a while.
                active = 1 + random.below(3);
            }
            fleet.hit(random.below(active) as usize).await;
            let pause = random.below(12);
            span += pause;
            fleet.advance(Duration::from_millis(pause));
        }
        let total: u64 = fleet.admitted.iter().sum();
        let most = bound(span + skew);
        assert!(total <= most, "{limit}, {ahead:?}: {total} of {most} in {span} ms");
    }
}
