//! The number of round trips to the store for each hit.

use crate::watched::{Watched, limiter, store};

#[tokio::test]
async fn a_hit_is_one_trip_when_the_cached_cell_is_current() {
    let cells = Watched::<false>::new();
    let one = limiter(&store(&cells), "5/hour");
    assert!(one.hit("key").await.unwrap().allowed());
    assert_eq!(cells.trips(), (0, 1), "a fresh key");
    for _ in 0..4 {
        assert!(one.hit("key").await.unwrap().allowed());
        assert_eq!(cells.trips(), (0, 1));
    }
    assert!(!one.hit("key").await.unwrap().allowed());
    assert_eq!(cells.trips(), (1, 0), "a denied hit is read from the store, not from the cache");
    let _ = one.peek("key").await.unwrap();
    assert_eq!(cells.trips(), (1, 0), "so is a peek");
}

#[tokio::test]
async fn a_hit_is_two_trips_when_another_process_has_written() {
    let cells = Watched::<false>::new();
    let (one, other) = (limiter(&store(&cells), "90/hour"), limiter(&store(&cells), "90/hour"));
    let _ = one.hit("key").await.unwrap();
    cells.trips();
    let _ = other.hit("key").await.unwrap();
    assert_eq!(cells.trips(), (0, 2), "not cached here: the lost swap returns the current cell");
    let _ = one.hit("key").await.unwrap();
    assert_eq!(
        cells.trips(),
        (1, 2),
        "a swap that was thought sure returns no cell: one more read"
    );
    let _ = other.hit("key").await.unwrap();
    assert_eq!(cells.trips(), (0, 2), "a swap of a key that others write is not thought sure");
    assert_eq!(one.usage("key").await.unwrap(), 4);
}

#[tokio::test]
async fn a_refund_of_another_process_is_seen_immediately() {
    let cells = Watched::<false>::new();
    let (one, other) = (limiter(&store(&cells), "1/hour"), limiter(&store(&cells), "1/hour"));
    let hit = one.hit("key").await.unwrap();
    assert!(!one.hit("key").await.unwrap().allowed());
    let _ = other.refund("key", &hit).await.unwrap();
    assert!(one.hit("key").await.unwrap().allowed());
}

#[tokio::test]
async fn callers_of_one_process_share_a_swap() {
    let cells = Watched::<false>::new();
    let limiter = limiter(&store(&cells), "40/hour");
    let gate = cells.close_gate();
    let hits: Vec<_> = (0..64)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.hit("key").await.unwrap().allowed() })
        })
        .collect();
    // The first hit is in a swap, all others wait in the queue.
    while cells.swaps.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(100);
    let mut admitted = 0;
    for hit in hits {
        admitted += u32::from(hit.await.unwrap());
    }
    let (reads, swaps) = cells.trips();
    assert!(admitted == 40 && reads == 0 && swaps <= 2, "{admitted} in {swaps} swaps");
}

#[tokio::test]
async fn a_policy_is_one_swap_on_cells_that_change_together() {
    let cells = Watched::<true>::new();
    let policy = store(&cells).limiter("2/hour; 5/day fixed-window; 9/day").unwrap();
    for _ in 0..2 {
        assert!(policy.hit("key").await.unwrap().allowed());
        assert_eq!(cells.trips(), (0, 1));
    }
    assert!(!policy.hit("key").await.unwrap().allowed());
    assert_eq!(cells.trips(), (1, 0));
}

/// The queues of a single cell and of a group that contains it exclude each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_and_single_hits_of_one_process_do_not_race() {
    let cells = Watched::<true>::new();
    let store = store(&cells);
    let (one, both) = (limiter(&store, "500/hour"), store.limiter("500/hour; 90/day"));
    let both = both.unwrap();
    let _ = both.hit("key").await.unwrap();
    let mut hits = Vec::new();
    for _ in 0..50 {
        let (one, both) = (one.clone(), both.clone());
        hits.push(tokio::spawn(async move {
            assert!(one.hit("key").await.unwrap().allowed());
            assert!(both.hit("key").await.unwrap().allowed());
        }));
    }
    for hit in hits {
        hit.await.unwrap();
    }
    assert_eq!(cells.trips().0, 0, "no race was lost: a lost race reads the cell again");
    assert_eq!(one.usage("key").await.unwrap(), 101);
}

#[tokio::test]
async fn a_policy_is_one_swap_per_limit_on_cells_that_change_one_at_a_time() {
    let cells = Watched::<false>::new();
    let policy = store(&cells).limiter("3/hour; 5/day fixed-window").unwrap();
    assert!(policy.hit("key").await.unwrap().allowed());
    assert_eq!(cells.trips(), (2, 2), "not cached: peeked at, then charged");
    assert!(policy.hit("key").await.unwrap().allowed());
    assert_eq!(cells.trips(), (0, 2), "cached: charged");
}
