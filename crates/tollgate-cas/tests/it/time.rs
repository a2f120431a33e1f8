//! Clocks of different machines.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{ErrorKind, ManualClock, Timestamp};

use crate::watched::{Store, Watched, builder, limiter};

const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

fn machine(cells: &Arc<Watched<false>>, ahead: Duration) -> (Store<false>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(START + ahead));
    (builder(cells).clock(Arc::clone(&clock)).build().unwrap(), clock)
}

#[tokio::test]
async fn a_clock_within_the_skew_is_followed() {
    let cells = Watched::<false>::new();
    let (fast, _) = machine(&cells, Duration::from_secs(10));
    let (slow, _) = machine(&cells, Duration::ZERO);
    let (fast, slow) = (limiter(&fast, "3/minute"), limiter(&slow, "3/minute"));
    assert!(fast.hit("key").await.unwrap().allowed());
    assert!(slow.hit("key").await.unwrap().allowed());
    // It waits ten seconds longer than it would by its own hits.
    let denied = slow.hit_n("key", 2).await.unwrap();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(30)));
}

#[tokio::test]
async fn a_state_further_ahead_is_a_clock_error_until_its_time_comes() {
    let cells = Watched::<false>::new();
    let (fast, _) = machine(&cells, Duration::from_secs(11));
    let (slow, clock) = machine(&cells, Duration::ZERO);
    // Hours ahead by what it allows itself, which is no wrong clock.
    let (fast, slow) = (limiter(&fast, "1/hour burst=9"), limiter(&slow, "1/hour burst=9"));
    assert!(fast.hit_n("key", 9).await.unwrap().allowed());
    for error in [slow.hit("key").await.unwrap_err(), slow.peek("key").await.unwrap_err()] {
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, true), "{error}");
        assert!(error.to_string().contains("11s ahead of the clock here, 10s are allowed"));
    }
    clock.set(START + Duration::from_secs(1));
    assert!(!slow.hit("key").await.unwrap().allowed());
    // A given time is the clock.
    assert!(!slow.at(START).hit("key").await.unwrap().allowed());
}
