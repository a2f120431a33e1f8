//! Failures: lost replies, dropped callers, foreign values.

use std::time::Duration;

use tollgate::shared::{Guard, SharedStore};
use tollgate::{ErrorKind, KeyRef};
use tollgate_cas::{Cells, Change, Name, Swap};

use crate::watched::{Fault, Watched, builder, limiter, store};

#[tokio::test]
async fn an_ambiguous_swap_is_never_retried() {
    let cells = Watched::<false>::new();
    let limiter = limiter(&store(&cells), "9/hour");
    assert!(limiter.hit("key").await.unwrap().allowed());
    cells.trips();
    cells.fail_with(Fault::LostReply);
    assert_eq!(limiter.hit("key").await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(cells.trips(), (0, 1));
    assert_eq!(limiter.usage("key").await.unwrap(), 2, "it was executed once");
    assert!(limiter.hit("key").await.unwrap().allowed());
    assert_eq!(limiter.usage("key").await.unwrap(), 3);
}

#[tokio::test]
async fn a_swap_that_was_not_sent_is_an_unavailable_store() {
    let cells = Watched::<false>::new();
    let limiter = limiter(&store(&cells), "9/hour");
    cells.fail_with(Fault::NotSent);
    assert_eq!(limiter.hit("key").await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(limiter.usage("key").await.unwrap(), 0);
}

/// The store answers, and others get decisions. So the breaker, which would also stop calls about
/// other keys, stays closed.
#[tokio::test]
async fn lost_races_open_no_breaker_and_are_certainly_not_charged() {
    let cells = Watched::<false>::new();
    let guard = Guard::builder().deadline(Duration::from_millis(100)).open_after(1);
    let store = builder(&cells).guard(guard).build().unwrap();
    let limiter = limiter(&store, "9/hour");
    cells.fail_with(Fault::Contended);
    let error = limiter.hit("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!((store.guard().stats().opened, store.guard().stats().shed), (0, 1), "{error}");
    *cells.fault.lock().unwrap() = None;
    assert_eq!(limiter.hit("key").await.unwrap().used(), 1);
}

/// Every caller in the swap may have been charged, so every one gets the ambiguous error.
#[tokio::test]
async fn a_lost_reply_is_an_ambiguous_error_for_all_callers_of_the_swap() {
    let cells = Watched::<false>::new();
    let limiter = limiter(&store(&cells), "90/hour");
    let gate = cells.close_gate();
    let hit = |_| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.hit("key").await })
    };
    let first = hit(0);
    while cells.swaps.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let hits: Vec<_> = (0..8).map(hit).collect();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(1);
    assert!(first.await.unwrap().unwrap().allowed());
    cells.fail_with(Fault::LostReply);
    gate.add_permits(100);
    for hit in hits {
        assert_eq!(hit.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
    }
    assert_eq!(limiter.usage("key").await.unwrap(), 9);
}

#[tokio::test]
async fn a_dropped_caller_does_not_delay_others() {
    let cells = Watched::<false>::new();
    let limiter = limiter(&store(&cells), "90/hour");
    let gate = cells.close_gate();
    let dropped_during_swap = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.hit("key").await }
    });
    while cells.swaps.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let mut waiting = Box::pin(limiter.hit("key"));
    let mut dropped_in_queue = Box::pin(limiter.hit("key"));
    for call in [&mut waiting, &mut dropped_in_queue] {
        assert!(poll_once_is_pending(call).await, "no caller has an answer yet");
    }
    dropped_during_swap.abort();
    drop(dropped_in_queue);
    gate.add_permits(100);
    assert!(waiting.await.unwrap().allowed());
    // The first hit was in the swap when its caller was dropped. The other one still waited in the
    // queue, and was skipped.
    assert_eq!(limiter.usage("key").await.unwrap(), 2);
}

/// Polls once; true if the future is pending.
async fn poll_once_is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx)))
        .await
        .is_pending()
}

#[tokio::test]
async fn a_failed_hit_of_a_group_refunds_the_others() {
    let cells = Watched::<false>::new();
    let store = store(&cells);
    let policy = store.limiter("9/hour; 9/day").unwrap();
    assert!(policy.hit("key").await.unwrap().allowed());
    cells.fail_with(Fault::NotSent);
    let error = policy.hit("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "one of them was executed: {error}");
    let used = policy.peek("key").await.unwrap();
    let used: Vec<u64> = used.outcomes().iter().map(tollgate::Outcome::used).collect();
    assert_eq!(used, [1, 1]);
}

#[tokio::test]
async fn a_foreign_value_is_an_error_that_names_the_key() {
    let cells = Watched::<false>::new();
    let limit = "5/hour".parse().unwrap();
    let limiter = limiter(&store(&cells), "5/hour");
    let name = cells.name(&cells.place("", Some(&limit)), KeyRef::plain(b"key"));
    let name = Name::new(name, 0);
    let keep = Duration::from_secs(1);
    let change = Change::Put { value: b"17", keep };
    cells.table.swap(&[Swap { name: &name, expected: None, change }], true).await.unwrap();
    for error in [
        limiter.hit("key").await.unwrap_err(),
        limiter.peek("key").await.unwrap_err(),
        limiter.reset("key").await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, false));
        assert!(error.to_string().contains(&name.to_string()), "{error}");
    }
}

#[tokio::test]
async fn clear_and_reset_also_drop_cached_cells() {
    let cells = Watched::<false>::new();
    let limiter = limiter(&store(&cells), "1/hour");
    for _ in 0..2 {
        assert!(limiter.hit("key").await.unwrap().allowed());
        assert!(limiter.reset("key").await.unwrap());
        assert!(!limiter.reset("key").await.unwrap());
        assert!(limiter.hit("key").await.unwrap().allowed());
        limiter.clear().await.unwrap();
    }
}

/// A caller that is polled once runs the worker. When a second caller joins, the worker becomes a
/// task.
#[tokio::test]
async fn a_caller_that_is_not_polled_does_not_delay_others() {
    let cells = Watched::<false>::new();
    let limiter = limiter(&store(&cells), "90/hour");
    let gate = cells.close_gate();
    let mut idle = Box::pin(limiter.hit("key"));
    assert!(poll_once_is_pending(&mut idle).await);
    assert_eq!(cells.swaps.load(std::sync::atomic::Ordering::SeqCst), 1, "its swap was sent");
    gate.add_permits(100);
    assert!(limiter.hit("key").await.unwrap().allowed());
    assert!(idle.await.unwrap().allowed(), "the idle caller gets its answer when it is polled");
    assert_eq!(limiter.usage("key").await.unwrap(), 2);
}

/// Many callers on few keys, some of them dropped at any moment: every other one gets its answer,
/// and no hit is counted twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_dropped_at_any_moment_do_not_delay_others() {
    let cells = Watched::<false>::new();
    let limiter = limiter(&store(&cells), "1000000/hour");
    let mut callers = Vec::new();
    for n in 0..200_u32 {
        let limiter = limiter.clone();
        callers.push(tokio::spawn(async move {
            let mut admitted = 0;
            for m in 0..50 {
                let mut hit = Box::pin(limiter.hit(m % 3));
                let done = (0..(n + m) % 4).any(|_| {
                    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
                    hit.as_mut().poll(&mut cx).is_ready()
                });
                if !done && (n * m) % 5 != 0 {
                    admitted += u64::from(hit.await.unwrap().allowed());
                }
            }
            admitted
        }));
    }
    let (mut answered, mut sent) = (0, 0);
    for caller in callers {
        answered += caller.await.unwrap();
        sent += 50;
    }
    let mut used = 0;
    for key in 0..3 {
        used += limiter.usage(key).await.unwrap();
    }
    assert!((answered..=sent).contains(&used), "{answered} answered, {used} counted, {sent} sent");
}
