//! Tests a store that gets more calls than it can answer.

use std::fmt;
use std::time::Duration;

use tokio::task::JoinError;
use tokio::time::Instant;
use tollgate::shared::{SharedLimiter, SharedStore};

use super::limiter;

/// A limit that is never used up.
const LIMIT: &str = "100000/365 days";

/// So many that hits on one key rarely coincide.
const KEYS: u64 = 1_000;

/// Callers that keep a store busy without being late.
const CALLERS: u64 = 48;

/// How long each measurement of the peak takes, and how long the store is overloaded.
const BUSY: Duration = Duration::from_secs(1);
const OVERLOADED: Duration = Duration::from_secs(5);

/// The interval at which calls start while the store is overloaded.
const TICK: Duration = Duration::from_millis(2);

/// How a store did that got twice as many hits as it can decide.
#[derive(Clone, Copy, Debug)]
pub struct Overload {
    /// The most hits that it answered per second.
    pub peak: u64,
    /// The hits that it got during the overload.
    pub offered: u64,
    /// The hits among them that it answered in time.
    pub answered: u64,
    /// The hits among them that it charged.
    pub charged: u64,
    /// The hits that it answered per second.
    pub rate: u64,
}

impl Overload {
    /// The answers per second during the overload, in percent of the peak.
    #[must_use]
    pub fn answered_percent(&self) -> u64 {
        self.rate * 100 / self.peak.max(1)
    }

    /// The hits that were charged and not answered, in percent of those charged, rounded up.
    #[must_use]
    pub fn lost_percent(&self) -> u64 {
        (self.charged.saturating_sub(self.answered) * 100).div_ceil(self.charged.max(1))
    }
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/s at most; at twice that {}/s ({} %), {} % charged but not answered",
            self.peak,
            self.rate,
            self.answered_percent(),
            self.lost_percent()
        )
    }
}

/// Offers a store twice as many hits as it can decide. It must not collapse: it answers at least 40
/// % as many as without overload, and of the hits that it charges at most 20 % are not answered.
///
/// `far` is the store under test, over a [`Distance`](super::Distance) that keeps it from being as
/// fast as this machine is; `near` leads directly to the same server.
///
/// # Panics
/// When it does not hold.
pub async fn overload<S: SharedStore>(far: &S, near: &S) {
    let overload = measure_overload(far, near, OVERLOADED).await;
    // A store that does not bound its calls answers less than a quarter, and more than half of what
    // it charges is not answered. `cargo xtask faults` shows how near a store comes to its peak on
    // a quiet machine.
    assert!(overload.answered_percent() >= 40, "{overload}");
    assert!(overload.lost_percent() <= 20, "{overload}");
}

/// Measures how many hits the store decides at most, and offers twice as many for a span.
///
/// `far` and `near` are those of [`overload`].
///
/// # Panics
/// When `near` does not answer.
pub async fn measure_overload<S: SharedStore>(far: &S, near: &S, span: Duration) -> Overload {
    let (far, near) = (limiter(far, LIMIT), limiter(near, LIMIT));
    // Keys that exist, and connections that are up.
    charge_all(&near).await;
    busy(&far, BUSY / 3).await;
    let peak = peak(&far).await;
    let before = charged(&near).await;
    let Flood { offered, answered, rate } = flood(&far, peak * 2, span).await;
    let charged = charged(&near).await - before;
    Overload { peak, offered, answered, charged, rate }
}

/// The most hits per second that the store answers, found by rising rates, until it is offered twice
/// as many. Callers that wait for their answers do not find it: a store far away could answer more
/// of them.
async fn peak<S: SharedStore>(limiter: &SharedLimiter<S>) -> u64 {
    let mut peak = busy(limiter, BUSY).await;
    let mut offered = peak;
    while offered < peak * 2 {
        offered += offered / 3 + 1;
        peak = peak.max(flood(limiter, offered, BUSY).await.rate);
    }
    peak
}

fn per_second(count: u64, span: Duration) -> u64 {
    count * 1000 / u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
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
async fn busy<S: SharedStore>(limiter: &SharedLimiter<S>, span: Duration) -> u64 {
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

#[derive(Debug)]
struct Flood {
    offered: u64,
    answered: u64,
    /// Answers per second, up to the last answer.
    rate: u64,
}

/// Hits many keys at a fixed rate, whatever the results.
async fn flood<S: SharedStore>(limiter: &SharedLimiter<S>, rate: u64, span: Duration) -> Flood {
    let (begin, mut offered) = (Instant::now(), 0);
    let (mut answered, mut last) = (0, begin);
    let mut ticks = tokio::time::interval(TICK);
    let mut calls = tokio::task::JoinSet::new();
    let mut ended = |call: Result<Option<Instant>, _>| {
        let answer: Option<Instant> = call.unwrap_or_else(|error: JoinError| panic!("{error}"));
        answered += u64::from(answer.is_some());
        last = last.max(answer.unwrap_or(begin));
    };
    while begin.elapsed() < span {
        ticks.tick().await;
        while u128::from(offered) < u128::from(rate) * begin.elapsed().as_millis() / 1000 {
            offered += 1;
            let limiter = limiter.clone();
            let call = async move { limiter.hit(key(offered) % KEYS).await };
            calls.spawn(async move { call.await.is_ok().then(Instant::now) });
        }
        while let Some(call) = calls.try_join_next() {
            ended(call);
        }
    }
    while let Some(call) = calls.join_next().await {
        ended(call);
    }
    Flood { offered, answered, rate: per_second(answered, last - begin) }
}
