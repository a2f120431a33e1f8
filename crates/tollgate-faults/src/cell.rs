//! One cell of the matrix: callers hit a limit, a fault begins and ends, and the results are
//! compared with what is allowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tollgate::shared::{AnyStore, SharedLimiter};
use tollgate::{Decision, Error, Source};
use tollgate_testservers::calls::Overload;

use crate::counts::{Answer, Shared};
use crate::durable;
use crate::ground::{Ground, is_whole};
use crate::matrix::{Fault, Store};

/// The deadline of a call.
pub(crate) const DEADLINE: Duration = Duration::from_millis(150);

/// Callers on each node, and the pause of each between two calls: together they call often enough
/// to use up the limit several times.
pub(crate) const CALLERS: usize = 4;
pub(crate) const PAUSE: Duration = Duration::from_millis(4);

/// The least that a store answers that gets twice as many calls as it can decide, in percent of
/// the most that it can, and the most that it may charge and not answer, in percent of what it
/// charges.
pub(crate) const LEAST_ANSWERED: u64 = 90;
pub(crate) const MOST_LOST: u64 = 5;

/// The most time for a call to end, and for a store to recover.
const PATIENCE: Duration = Duration::from_secs(20);

/// The duration of a cell, and how late a call may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// The time before the fault and after the recovery.
    pub(crate) calm: Duration,
    pub(crate) fault: Duration,
    /// The time that a call may take beyond its deadline on a busy machine.
    pub(crate) slack: Duration,
}

impl Size {
    pub(crate) const QUICK: Size = Size {
        calm: Duration::from_millis(500),
        fault: Duration::from_secs(1),
        slack: Duration::from_secs(5),
    };

    /// For replicas the fault is long enough that they notice each other's absence.
    pub(crate) fn full(store: Store) -> Size {
        let fault = if store.is_replicated() { 4 } else { 2 };
        let fault = Duration::from_secs(fault);
        Size { calm: Duration::from_secs(1), fault, slack: Duration::from_millis(500) }
    }
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) store: Store,
    pub(crate) fault: Fault,
    pub(crate) attempted: u64,
    pub(crate) admitted: u64,
    pub(crate) allowed: u64,
    pub(crate) rule: &'static str,
    pub(crate) errors: u64,
    pub(crate) longest: Duration,
    pub(crate) recovery: Option<Duration>,
    pub(crate) note: String,
    /// The error of the last call that failed.
    pub(crate) error: Option<String>,
    pub(crate) failures: Vec<String>,
}

pub(crate) async fn run(store: Store, fault: Fault, size: Size) -> Row {
    let (counts, overload) = match store.server() {
        Some(kind) => {
            let mut ground = Ground::set_up(store, kind, fault).await;
            let counts = Shared::new(ground.limiters().len());
            let stopped = Arc::new(AtomicBool::new(false));
            let callers = start_callers(&ground, &counts, &stopped);
            sleep(size.calm).await;
            ground.begin(fault, size.fault).await;
            sleep(size.fault).await;
            let overload = ground.end(fault).await;
            counts.fault_ended();
            recovered(&counts).await;
            sleep(size.calm).await;
            stopped.store(true, Ordering::Relaxed);
            for caller in callers {
                caller.await.unwrap_or_else(|error| panic!("a caller: {error}"));
            }
            (counts, overload)
        }
        None => (durable::run(fault, size).await, None),
    };
    judge(store, fault, size, &counts, overload)
}

/// Waits until every node gets answers again, or the time is over.
pub(crate) async fn recovered(counts: &Shared) {
    let begin = Instant::now();
    while counts.lock().recovery().is_none() && begin.elapsed() < PATIENCE {
        sleep(Duration::from_millis(5)).await;
    }
}

fn start_callers(
    ground: &Ground,
    counts: &Shared,
    stopped: &Arc<AtomicBool>,
) -> Vec<tokio::task::JoinHandle<()>> {
    let limiters = ground.limiters().into_iter().enumerate();
    let each = limiters.flat_map(|node| std::iter::repeat_n(node, CALLERS));
    let start =
        |(node, limiter)| tokio::spawn(call(node, limiter, counts.clone(), Arc::clone(stopped)));
    each.map(start).collect()
}

async fn call(
    node: usize,
    limiter: SharedLimiter<AnyStore>,
    counts: Shared,
    stopped: Arc<AtomicBool>,
) {
    while !stopped.load(Ordering::Relaxed) {
        let began = Instant::now();
        let answer = match timeout(PATIENCE, limiter.hit("key")).await {
            Ok(hit) => answer(hit),
            Err(_) => Answer::Failed("no answer".to_owned()),
        };
        counts.note(node, began, answer, is_whole(limiter.store()));
        sleep(PAUSE).await;
    }
}

pub(crate) fn answer(hit: Result<Decision, Error>) -> Answer {
    match hit {
        // Leases remember denials. Such an answer does not show that the store is back.
        Ok(hit) if hit.source() == Source::DenialCache => Answer::Remembered,
        Ok(hit) if !matches!(hit.source(), Source::Store | Source::Lease | Source::Replica) => {
            Answer::Failed(format!("answered by {}", hit.source().name()))
        }
        Ok(hit) if hit.allowed() => Answer::Admitted,
        Ok(_) => Answer::Denied,
        Err(error) => Answer::Failed(error.to_string()),
    }
}

fn judge(
    store: Store,
    fault: Fault,
    size: Size,
    counts: &Shared,
    overload: Option<Overload>,
) -> Row {
    let counts = counts.lock();
    let (allowed, rule) = store.allowed(fault, counts.span());
    let recovery = counts.recovery();
    let mut failures = Vec::new();
    if counts.admitted > allowed {
        failures.push(format!("{} admitted, {allowed} allowed", counts.admitted));
    }
    let latest = DEADLINE + size.slack;
    if counts.longest > latest {
        failures.push(format!("a call took {:?}, more than {latest:?}", counts.longest));
    }
    if recovery.is_none() {
        failures.push(format!("not recovered after {PATIENCE:?}"));
    }
    if let Some(overload) = overload {
        if overload.answered_percent() < LEAST_ANSWERED {
            failures.push(format!("less than {LEAST_ANSWERED} % of the peak: {overload}"));
        }
        if overload.lost_percent() > MOST_LOST {
            failures.push(format!("more than {MOST_LOST} % not answered: {overload}"));
        }
    }
    Row {
        store,
        fault,
        attempted: counts.attempted,
        admitted: counts.admitted,
        allowed,
        rule,
        errors: counts.errors,
        longest: counts.longest,
        recovery,
        note: overload.map(|overload| overload.to_string()).unwrap_or_default(),
        error: counts.error.clone(),
        failures,
    }
}
