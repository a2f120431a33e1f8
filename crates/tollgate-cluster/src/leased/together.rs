//! Several operations in one call.

use std::time::Duration;

use futures_util::future::try_join_all;
use tollgate::algorithm::Op;
use tollgate::shared::{HitItem, SharedStore};
use tollgate::{Error, Outcome};

use super::key_call::KeyCall;
use super::table::CounterKey;
use super::waiter::Demand;

/// How often other callers may spend the fetched units before the store decides.
const TRIES: usize = 3;

/// Each operation on its own.
pub(super) async fn each<S: SharedStore>(
    calls: Vec<(KeyCall<S>, Op)>,
    deadline: Duration,
) -> Result<Vec<Outcome>, Error> {
    try_join_all(calls.iter().map(|(call, op)| call.answer(*op, deadline))).await
}

/// Charges all hits or none. Missing units are fetched first; then all are spent in one step, or
/// nothing is.
pub(super) async fn together<S: SharedStore>(
    hits: Vec<(KeyCall<S>, u64)>,
    deadline: Duration,
) -> Result<Vec<Outcome>, Error> {
    let can_lease = |(call, cost): &(KeyCall<S>, u64)| call.lease.can_lease(*cost);
    if hits.iter().all(can_lease) {
        for _ in 0..TRIES {
            let lacking = match spend_all(&hits) {
                Ok(decisions) => return Ok(decisions),
                Err(lacking) => lacking,
            };
            let fetch = lacking.iter().map(|index| {
                let (call, cost) = &hits[*index];
                call.wait_for(Demand::Fetch(*cost), deadline)
            });
            let fetched = try_join_all(fetch).await?;
            if fetched.iter().any(|decision| !decision.allowed()) {
                return refused(&hits, &lacking, &fetched, deadline).await;
            }
        }
    }
    exactly(&hits, deadline).await
}

/// Spends all, or returns which parts have too little.
fn spend_all<S: SharedStore>(hits: &[(KeyCall<S>, u64)]) -> Result<Vec<Outcome>, Vec<usize>> {
    let Some((first, _)) = hits.first() else { return Ok(Vec::new()) };
    let inner = first.inner();
    let counters: Vec<CounterKey<'_>> = hits.iter().map(|(call, _)| call.counter()).collect();
    let spent = inner.table.find_all(&counters, |queues| {
        let now = inner.clock.now();
        let enough = |(index, (_, cost)): (usize, &(KeyCall<S>, u64))| {
            let queue = queues.find(index);
            let has = queue.is_some_and(|queue| queue.has(now, *cost));
            (!has).then_some(index)
        };
        let lacking: Vec<usize> = hits.iter().enumerate().filter_map(enough).collect();
        if !lacking.is_empty() {
            return Err(lacking);
        }
        let spend = |(index, (call, cost)): (usize, &(KeyCall<S>, u64))| {
            queues.find(index)?.ask(&call.lease.terms, now, Demand::Hit(*cost))
        };
        Ok(hits.iter().enumerate().filter_map(spend).collect::<Vec<_>>())
    })?;
    inner.counters.in_hand.add(1);
    for ((call, _), (_, low)) in hits.iter().zip(&spent) {
        if *low {
            call.begin();
        }
    }
    Ok(spent.into_iter().map(|(decision, _)| decision).collect())
}

/// The outcomes of a group of which some were denied. Nothing was spent.
async fn refused<S: SharedStore>(
    hits: &[(KeyCall<S>, u64)],
    lacking: &[usize],
    fetched: &[Outcome],
    deadline: Duration,
) -> Result<Vec<Outcome>, Error> {
    let part = async |index: usize| {
        let (call, cost) = &hits[index];
        match lacking.iter().position(|lacks| *lacks == index) {
            Some(at) => Ok(fetched[at]),
            None => call.answer(Op::Peek(*cost), deadline).await,
        }
    };
    try_join_all((0..hits.len()).map(part)).await
}

/// The store decides now.
async fn exactly<S: SharedStore>(
    hits: &[(KeyCall<S>, u64)],
    deadline: Duration,
) -> Result<Vec<Outcome>, Error> {
    let Some((first, _)) = hits.first() else { return Ok(Vec::new()) };
    let items: Vec<_> = hits
        .iter()
        .map(|(call, cost)| HitItem {
            prepared: &call.lease.prepared,
            key: call.key.as_key_ref(),
            cost: *cost,
        })
        .collect();
    first.inner().store.ask_together(&items, None, deadline).await
}
