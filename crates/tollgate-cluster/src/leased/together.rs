//! Several operations in one call.

use futures_util::future::try_join_all;
use tollgate::algorithm::Op;
use tollgate::shared::{Ask, Mode, SharedStore};
use tollgate::{Error, Outcome};

use super::question::Question;
use super::table::Spot;
use super::wish::Wish;

/// How often other callers may spend the fetched units before the store decides.
const TRIES: usize = 3;

/// Each operation on its own.
pub(super) async fn each<S: SharedStore>(
    questions: Vec<(Question<S>, Op)>,
) -> Result<Vec<Outcome>, Error> {
    try_join_all(questions.iter().map(|(question, op)| question.answer(*op))).await
}

/// Charges all hits or none. Missing units are fetched first; then all are spent in one step, or
/// nothing is.
pub(super) async fn together<S: SharedStore>(
    questions: Vec<(Question<S>, Op)>,
) -> Result<Vec<Outcome>, Error> {
    let can_lease = |(question, op): &(Question<S>, Op)| question.lease.can_lease(cost_of(*op));
    if questions.iter().all(can_lease) {
        for _ in 0..TRIES {
            let lacking = match spend_all(&questions) {
                Ok(decisions) => return Ok(decisions),
                Err(lacking) => lacking,
            };
            let fetch = lacking.iter().map(|index| {
                let (question, op) = &questions[*index];
                question.wait_for(Wish::Fetch(cost_of(*op)))
            });
            let fetched = try_join_all(fetch).await?;
            if fetched.iter().any(|decision| !decision.allowed()) {
                return refused(&questions, &lacking, &fetched).await;
            }
        }
    }
    exactly(&questions).await
}

/// Spends all, or returns which parts have too little.
fn spend_all<S: SharedStore>(questions: &[(Question<S>, Op)]) -> Result<Vec<Outcome>, Vec<usize>> {
    let Some((first, _)) = questions.first() else { return Ok(Vec::new()) };
    let inner = first.inner();
    let spots: Vec<Spot<'_>> = questions.iter().map(|(question, _)| question.spot()).collect();
    let spent = inner.table.find_all(&spots, |desks| {
        let now = inner.clock.now();
        let enough = |(index, (_, op)): (usize, &(Question<S>, Op))| {
            let desk = desks.find(index);
            let has = desk.is_some_and(|desk| desk.has(now, cost_of(*op)));
            (!has).then_some(index)
        };
        let lacking: Vec<usize> = questions.iter().enumerate().filter_map(enough).collect();
        if !lacking.is_empty() {
            return Err(lacking);
        }
        let spend = |(index, (question, op)): (usize, &(Question<S>, Op))| {
            desks.find(index)?.ask(&question.lease.terms, now, Wish::Hit(cost_of(*op)))
        };
        Ok(questions.iter().enumerate().filter_map(spend).collect::<Vec<_>>())
    })?;
    inner.counters.in_hand.add(1);
    for ((question, _), (_, low)) in questions.iter().zip(&spent) {
        if *low {
            question.begin();
        }
    }
    Ok(spent.into_iter().map(|(decision, _)| decision).collect())
}

/// The outcomes of a group of which some were denied. Nothing was spent.
async fn refused<S: SharedStore>(
    questions: &[(Question<S>, Op)],
    lacking: &[usize],
    fetched: &[Outcome],
) -> Result<Vec<Outcome>, Error> {
    let part = async |index: usize| {
        let (question, op) = &questions[index];
        match lacking.iter().position(|lacks| *lacks == index) {
            Some(at) => Ok(fetched[at]),
            None => question.answer(Op::Peek(cost_of(*op))).await,
        }
    };
    try_join_all((0..questions.len()).map(part)).await
}

/// The store decides now.
async fn exactly<S: SharedStore>(questions: &[(Question<S>, Op)]) -> Result<Vec<Outcome>, Error> {
    let Some((first, _)) = questions.first() else { return Ok(Vec::new()) };
    let ask = |(question, op): &'_ (Question<S>, Op)| {
        (question.lease.prepared.clone(), question.key.clone(), *op)
    };
    let owned: Vec<_> = questions.iter().map(ask).collect();
    let asks: Vec<_> = owned
        .iter()
        .map(|(prepared, key, op)| Ask { prepared, key: key.as_ref(), op: *op })
        .collect();
    let asked = first.inner().store.ask(&asks, Mode::Together, None);
    asked.await
}

/// The cost of a hit.
fn cost_of(op: Op) -> u64 {
    if let Op::Hit(cost) = op { cost } else { 0 }
}
