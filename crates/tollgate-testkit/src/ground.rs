//! The setting of a rule: its own namespace on the store, and calls that must be answered.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::shared::{SharedLimiter, SharedStore};
use tollgate::{Algorithm, Error, ErrorKind, Key, Limit, Outcome, Policy, Receipt, Timestamp};

use crate::random::unique;
use crate::subject::Subject;

/// A Monday in 2026. Rules do not begin at the epoch, where a time lost by the store would not be
/// noticed.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_790_000_000_123_457);

pub(crate) const TICK: Duration = Duration::from_micros(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);
pub(crate) const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Long enough for a slow machine: the suite checks answers, not speed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

pub(crate) fn before(time: Timestamp, span: Duration) -> Timestamp {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    Timestamp::from_micros(time.as_micros().saturating_sub(micros))
}

/// A limit from its text.
pub(crate) fn limit(text: &str) -> Limit {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn unused() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{:x}-{}", unique(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A namespace that no other rule, run or process uses.
#[derive(Debug)]
pub(crate) struct Ground<'s, S: Subject> {
    pub(crate) subject: &'s S,
    pub(crate) store: S::Store,
    pub(crate) namespace: String,
}

impl<'s, S: Subject> Ground<'s, S> {
    pub(crate) fn new(subject: &'s S) -> Self {
        Ground { subject, store: subject.store(), namespace: unused() }
    }

    /// Another ground on the same handle.
    pub(crate) fn fresh(&self) -> Self {
        Ground { subject: self.subject, store: self.store.clone(), namespace: unused() }
    }

    /// The same namespace through another handle.
    pub(crate) fn again(&self) -> Self {
        Ground::at(self.subject, &self.namespace)
    }

    pub(crate) fn at(subject: &'s S, namespace: &str) -> Self {
        Ground { subject, store: subject.store(), namespace: namespace.to_owned() }
    }

    /// Another namespace on the same handle.
    pub(crate) fn within(&self, name: &str) -> Self {
        let namespace = format!("{}{name}", self.namespace);
        Ground { subject: self.subject, store: self.store.clone(), namespace }
    }

    pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
        self.subject.block_on(future)
    }

    /// The limiter of a limit; `None` if the store refuses the limit, and may refuse it.
    pub(crate) fn limited(&self, limit: &Limit) -> Option<Limited<'s, S>> {
        let on = SharedLimiter::new(&self.store, &self.namespace, limit.clone());
        let inner = self.supported(on, std::slice::from_ref(limit))?.deadline(DEADLINE);
        Some(Limited { subject: self.subject, inner })
    }

    pub(crate) fn policy(&self, policy: &Policy) -> Option<SharedLimiter<S::Store>> {
        let on = SharedLimiter::new(&self.store, &self.namespace, policy.clone());
        Some(self.supported(on, policy.limits())?.deadline(DEADLINE))
    }

    fn supported<T>(&self, on: Result<T, Error>, limits: &[Limit]) -> Option<T> {
        match on {
            Ok(limiter) => Some(limiter),
            Err(error) => {
                let may = limits.iter().any(|limit| self.subject.refuses(limit));
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                assert!(may, "refused without being told of by Subject::refuses: {error}");
                None
            }
        }
    }

    /// One limiter for each algorithm that the store supports.
    pub(crate) fn of_all(&self, quota: u64, period: Duration) -> Vec<Limited<'s, S>> {
        let limit = |algorithm| Limit::new(quota, period).algorithm(algorithm).build();
        let held = |algorithm| self.limited(&limit(algorithm).expect("a valid limit"));
        Algorithm::PERIODIC.into_iter().filter_map(held).collect()
    }

    /// The same from texts, each with all algorithms that it allows.
    pub(crate) fn of_texts<'t>(
        &self,
        texts: impl IntoIterator<Item = &'t str>,
    ) -> Vec<Limited<'s, S>> {
        texts.into_iter().filter_map(|text| self.limited(&limit(text))).collect()
    }
}

/// A limiter whose store must answer.
#[derive(Debug)]
pub(crate) struct Limited<'s, S: Subject> {
    pub(crate) subject: &'s S,
    pub(crate) inner: SharedLimiter<S::Store>,
}

impl<S: Subject> Limited<'_, S> {
    pub(crate) fn limit(&self) -> &Limit {
        &self.inner.limits()[0]
    }

    pub(crate) fn store_is_that_of(&self, other: &Self) -> bool {
        std::ptr::eq(self.inner.store().guard(), other.inner.store().guard())
    }

    pub(crate) fn must<T>(&self, future: impl Future<Output = Result<T, Error>>) -> T {
        self.subject.block_on(future).unwrap_or_else(|error| panic!("{}: {error}", self.limit()))
    }

    /// An operation, by the corresponding method.
    pub(crate) fn apply(&self, now: Timestamp, key: impl Key, op: Op) -> Outcome {
        let at = self.inner.at(now);
        let decision = self.must(async {
            match op {
                Op::Hit(1) => at.hit(key).await,
                Op::Hit(cost) => at.hit_n(key, cost).await,
                Op::Peek(1) => at.peek(key).await,
                Op::Peek(cost) => at.peek_n(key, cost).await,
                Op::Take(cost) => at.take(key, cost).await,
                Op::Charge(units) => at.charge(key, units).await,
                Op::Refund(receipt) => at.refund_receipts(key, &[receipt]).await,
                Op::RefundUnits(units) => at.refund_n(key, units).await,
                Op::Set(units) => at.set(key, units).await,
                other => Err(Error::request(format!("no call for {other:?}"))),
            }
        });
        *decision.headline()
    }

    pub(crate) fn hit(&self, now: Timestamp, key: impl Key) -> Outcome {
        self.apply(now, key, Op::Hit(1))
    }

    pub(crate) fn hit_n(&self, now: Timestamp, key: impl Key, cost: u64) -> Outcome {
        self.apply(now, key, Op::Hit(cost))
    }

    pub(crate) fn peek(&self, now: Timestamp, key: impl Key) -> Outcome {
        self.apply(now, key, Op::Peek(1))
    }

    pub(crate) fn refund(&self, now: Timestamp, key: impl Key, receipt: &Receipt) -> Outcome {
        self.apply(now, key, Op::Refund(*receipt))
    }

    pub(crate) fn usage(&self, now: Timestamp, key: impl Key) -> u64 {
        self.must(self.inner.at(now).usage(key))
    }

    pub(crate) fn reset(&self, now: Timestamp, key: impl Key) -> bool {
        self.must(self.inner.at(now).reset(key))
    }

    /// How many of `tries` hits of cost 1 pass.
    pub(crate) fn admitted(&self, now: Timestamp, key: impl Key, tries: u64) -> u64 {
        (0..tries).map(|_| u64::from(self.hit(now, &key).allowed())).sum()
    }
}

/// Runs `f` on this many threads concurrently, and returns their results.
pub(crate) fn on_threads<T: Send>(count: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(count);
    thread::scope(|scope| {
        let run = |index| {
            let (f, barrier) = (&f, &barrier);
            scope.spawn(move || {
                barrier.wait();
                f(index)
            })
        };
        let handles: Vec<_> = (0..count).map(run).collect();
        let join = |handle: thread::ScopedJoinHandle<'_, T>| match handle.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        handles.into_iter().map(join).collect()
    })
}
