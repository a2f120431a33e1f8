//! Tests a store that gets more calls than it can answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tollgate::shared::{SharedLimiter, SharedStore};

use super::limiter;

/// A limit that is never used up.
const LIMIT: &str = "100000/365 days";

/// So many that hits on one key rarely coincide.
const KEYS: u64 = 1_000;

/// Callers that keep a store busy without being late.
const CALLERS: u64 = 48;

/// How long the store is busy, and how long it is overloaded.
const BUSY: Duration = Duration::from_millis(1_500);
const OVERLOADED: Duration = Duration::from_secs(5);

/// The interval at which calls start while the store is overloaded.
const TICK: Duration = Duration::from_millis(2);

/// Offers a store twice as many hits as it can decide. It must not collapse: it answers at least 40
/// % as many as without overload, and of the hits that it charges at most 20 % are not answered.
///
/// `far` is the store under test, over a [`Distance`](super::Distance) that keeps it from being as
/// fast as this machine is; `near` leads directly to the same server.
///
/// # Panics
/// When it does not hold.
pub async fn overload<S: SharedStore>(far: &S, near: &S) {
    let (far, near) = (limiter(far, LIMIT), limiter(near, LIMIT));
    // Keys that exist, and connections that are up.
    charge_all(&near).await;
    busy(&far, Duration::from_millis(300)).await;
    let peak = busy(&far, BUSY).await;
    let before = charged(&near).await;
    let (answered, offered) = flood(&far, peak * 2, OVERLOADED).await;
    let charged = charged(&near).await - before;
    let lost = charged.saturating_sub(answered);
    let rate = per_second(answered, OVERLOADED);
    let told = format!(
        "{peak}/s at most; then of {offered} hits in {OVERLOADED:?} {answered} were answered ({rate}/s), {charged} charged"
    );
    // A store that does not bound its calls answers less than a quarter, and more than half of what
    // it charges is not answered. `cargo xtask faults` shows how near a store comes to its peak on
    // a quiet machine.
    assert!(rate * 5 >= peak * 2, "{told}");
    assert!(lost * 5 <= charged, "{told}");
}

fn per_second(count: u64, span: Duration) -> u64 {
    count * 1000 / u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn key(n: u64) -> u64 {
    // A permutation of the numbers.
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

async fn charge_all<S: SharedStore>(limiter: &SharedLimiter<S>) {
    for n in 0..KEYS {
        let hit = limiter.within(super::LONG).hit(n).await;
        assert!(hit.is_ok_and(|hit| hit.allowed()), "the store decides");
    }
}

/// Units charged on all keys, once no more are being charged.
async fn charged<S: SharedStore>(limiter: &SharedLimiter<S>) -> u64 {
    let mut last = None;
    loop {
        let mut sum = 0;
        for key in 0..KEYS {
            let peek = limiter.within(super::LONG).peek(key).await;
            sum += peek.unwrap_or_else(|error| panic!("{error}")).used();
        }
        if last == Some(sum) {
            return sum;
        }
        last = Some(sum);
    }
}

/// Hits many keys by callers who each wait for their answer, and returns how many were answered per
/// second.
///
/// # Panics
/// When a call does.
pub async fn busy<S: SharedStore>(limiter: &SharedLimiter<S>, span: Duration) -> u64 {
    let end = Instant::now() + span;
    let caller = |caller: u64| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            let (mut answered, mut n) = (0_u64, caller);
            while Instant::now() < end {
                n += CALLERS;
                if limiter.hit(key(n) % KEYS).await.is_ok() {
                    answered += 1;
                } else {
                    // A call can fail without waiting. Without this pause the loop would block the
                    // thread.
                    tokio::time::sleep(TICK).await;
                }
            }
            answered
        })
    };
    let mut answered = 0;
    for caller in (0..CALLERS).map(caller).collect::<Vec<_>>() {
        answered += caller.await.unwrap_or_else(|error| panic!("{error}"));
    }
    per_second(answered, span)
}

/// Hits many keys at a fixed rate, whatever the results, and returns how many of the hits were
/// answered.
pub async fn flood<S: SharedStore>(
    limiter: &SharedLimiter<S>,
    rate: u64,
    span: Duration,
) -> (u64, u64) {
    let answered = Arc::new(AtomicU64::new(0));
    let (begin, mut offered) = (Instant::now(), 0);
    let mut ticks = tokio::time::interval(TICK);
    let mut calls = tokio::task::JoinSet::new();
    while begin.elapsed() < span {
        ticks.tick().await;
        while u128::from(offered) < u128::from(rate) * begin.elapsed().as_millis() / 1000 {
            offered += 1;
            let (limiter, answered) = (limiter.clone(), Arc::clone(&answered));
            calls.spawn(async move {
                if limiter.hit(key(offered) % KEYS).await.is_ok() {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while calls.try_join_next().is_some() {}
    }
    while calls.join_next().await.is_some() {}
    (answered.load(Ordering::Relaxed), offered)
}
