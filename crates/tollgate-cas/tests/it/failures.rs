//! What goes wrong: answers that do not come, callers that go, values of others.

use tollgate::{ErrorKind, KeyRef};
use tollgate_cas::{Cells, Change, Name, Swap};

use crate::watched::{Fault, Watched, limiter, store};

#[tokio::test]
async fn an_ambiguous_swap_is_never_repeated() {
    let cells = Watched::<false>::new();
    let limiter = limiter(&store(&cells), "9/hour");
    assert!(limiter.hit("key").await.unwrap().allowed());
    cells.trips();
    cells.fail_with(Fault::LostAnswer);
    assert_eq!(limiter.hit("key").await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(cells.trips(), (0, 1));
    assert_eq!(limiter.usage("key").await.unwrap(), 2, "it was done, once");
    assert!(limiter.hit("key").await.unwrap().allowed());
    assert_eq!(limiter.usage("key").await.unwrap(), 3);
}

#[tokio::test]
async fn what_was_not_sent_was_not_done() {
    let cells = Watched::<false>::new();
    let limiter = limiter(&store(&cells), "9/hour");
    cells.fail_with(Fault::NotSent);
    assert_eq!(limiter.hit("key").await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(limiter.usage("key").await.unwrap(), 0);
}

/// All who were in the swap may have been charged: none of them is told otherwise.
#[tokio::test]
async fn a_lost_answer_is_lost_for_all_of_its_callers() {
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
    cells.fail_with(Fault::LostAnswer);
    gate.add_permits(100);
    for hit in hits {
        assert_eq!(hit.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
    }
    assert_eq!(limiter.usage("key").await.unwrap(), 9);
}

#[tokio::test]
async fn a_caller_that_goes_holds_up_nobody() {
    let cells = Watched::<false>::new();
    let limiter = limiter(&store(&cells), "90/hour");
    let gate = cells.close_gate();
    let gone = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.hit("key").await }
    });
    while cells.swaps.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let mut waiting = Box::pin(limiter.hit("key"));
    let mut also_gone = Box::pin(limiter.hit("key"));
    for call in [&mut waiting, &mut also_gone] {
        assert!(futures_poll(call).await, "nobody is answered yet");
    }
    gone.abort();
    drop(also_gone);
    gate.add_permits(100);
    assert!(waiting.await.unwrap().allowed());
    // The first was on its way when its caller went; the other one had not begun, and was never
    // done.
    assert_eq!(limiter.usage("key").await.unwrap(), 2);
}

/// Polls once; true if it is not ready.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx)))
        .await
        .is_pending()
}

#[tokio::test]
async fn a_failed_part_of_a_group_gives_the_others_back() {
    let cells = Watched::<false>::new();
    let store = store(&cells);
    let policy = store.policy_limiter("9/hour; 9/day").unwrap();
    assert!(policy.hit("key").await.unwrap().allowed());
    cells.fail_with(Fault::NotSent);
    let error = policy.hit("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "one of them was done: {error}");
    let used = policy.peek("key").await.unwrap();
    let used: Vec<u64> = used.outcomes().iter().map(tollgate::Decision::used).collect();
    assert_eq!(used, [1, 1]);
}

#[tokio::test]
async fn a_value_of_somebody_else_is_an_error_that_names_the_key() {
    let cells = Watched::<false>::new();
    let limit = "5/hour".parse().unwrap();
    let limiter = limiter(&store(&cells), "5/hour");
    let name = cells.name(&cells.place("", Some(&limit)), KeyRef::plain(b"key"));
    let name = Name::new(name, 0);
    let keep = std::time::Duration::from_secs(1);
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
async fn clearing_and_resetting_forget_what_is_remembered() {
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

/// Who is polled once and then no more leads, until somebody else comes: then the work is nobody's.
#[tokio::test]
async fn a_caller_that_is_not_polled_holds_up_nobody() {
    let cells = Watched::<false>::new();
    let limiter = limiter(&store(&cells), "90/hour");
    let gate = cells.close_gate();
    let mut idle = Box::pin(limiter.hit("key"));
    assert!(futures_poll(&mut idle).await);
    assert_eq!(cells.swaps.load(std::sync::atomic::Ordering::SeqCst), 1, "it is on its way");
    gate.add_permits(100);
    assert!(limiter.hit("key").await.unwrap().allowed());
    assert!(idle.await.unwrap().allowed(), "and has its answer when it asks for it");
    assert_eq!(limiter.usage("key").await.unwrap(), 2);
}

/// Many callers on few keys, some of them dropped at any moment: every other one is answered, and
/// nothing is counted twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_come_and_go_at_any_moment_hold_up_nobody() {
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
    let (mut answered, mut asked) = (0, 0);
    for caller in callers {
        answered += caller.await.unwrap();
        asked += 50;
    }
    let mut used = 0;
    for key in 0..3 {
        used += limiter.usage(key).await.unwrap();
    }
    assert!(
        (answered..=asked).contains(&used),
        "{answered} answered, {used} counted, {asked} asked"
    );
}
