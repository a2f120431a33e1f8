//! The questions of a request, asked.

use super::Question;
use crate::service::{
    Answer, DescriptorKey, Item, Match, Operation, RequestError, RequestErrorKind, Service, Verdict,
};

type Hit<'a> = Item<'a, &'a DescriptorKey>;

/// The answers, in order; `None` where nothing limits.
///
/// Peeks come first: where one of them refuses, the whole request is refused and its hits are only
/// looked at, except those of limits that charge denied hits. The hits are one step, all or
/// nothing. A refund and a charge tell of something that is over: they are made whatever the others
/// say. Quotas come last, each for itself: one that lets pass is enough.
pub(super) async fn all(
    service: &Service,
    questions: &[Question],
) -> Result<Vec<Option<Answer>>, RequestError> {
    if let [Question::Of(found, operation)] = questions {
        let answer = service.ask(&found.bound, Question::key(found), *operation).await?;
        return Ok(vec![Some(answer)]);
    }
    let mut answers = vec![None; questions.len()];
    let (mut hits, mut quotas) = (Vec::new(), Vec::new());
    for (index, question) in questions.iter().enumerate() {
        match question {
            Question::Free => {}
            Question::Blocked => {
                answers[index] = Some(Answer { verdict: Verdict::Blocked, decision: None });
            }
            Question::Of(found, Operation::Hit(cost)) if question.is_quota() => {
                quotas.push((index, found, *cost));
            }
            Question::Of(found, Operation::Hit(cost)) => hits.push((index, found, *cost)),
            Question::Of(found, operation) => {
                let answer = service.ask(&found.bound, Question::key(found), *operation).await?;
                answers[index] = Some(answer);
            }
        }
    }
    let open = binding_pass(questions, &answers);
    for (index, answer) in hit(service, &hits, open).await? {
        answers[index] = Some(answer);
    }
    let open = binding_pass(questions, &answers);
    for (index, found, cost) in &quotas {
        let operation = if open { Operation::Hit(*cost) } else { Operation::Peek(*cost) };
        let answer = service.ask(&found.bound, Question::key(found), operation).await?;
        answers[*index] = Some(answer);
    }
    if open && !passes(questions, &answers) {
        for (index, found, cost) in hits {
            let key = Question::key(found);
            if answers[index].as_ref().is_some_and(|answer| answer.verdict == Verdict::Allowed)
                && !found.bound.charges_denied(key)
            {
                let back = Operation::Refund(cost);
                let _ = service.ask(&found.bound, key, back).await?;
            }
        }
    }
    Ok(answers)
}

/// Whether the request may pass: no limit refuses, and of its quotas, if there are any, one does
/// not.
pub(super) fn passes(questions: &[Question], answers: &[Option<Answer>]) -> bool {
    let quotas = questions.iter().zip(answers).filter(|(question, _)| question.is_quota());
    let mut quotas = quotas.filter_map(|(_, answer)| answer.as_ref()).peekable();
    binding_pass(questions, answers) && (quotas.peek().is_none() || quotas.any(Answer::passes))
}

fn binding_pass(questions: &[Question], answers: &[Option<Answer>]) -> bool {
    let binding = questions.iter().zip(answers).filter(|(question, _)| !question.is_quota());
    binding.filter_map(|(_, answer)| answer.as_ref()).all(Answer::passes)
}

/// Hits, unless the request is refused already. Hits on one counter are one hit.
async fn hit(
    service: &Service,
    hits: &[(usize, &Match, u64)],
    open: bool,
) -> Result<Vec<(usize, Answer)>, RequestError> {
    let mut items: Vec<(&Match, Hit<'_>)> = Vec::with_capacity(hits.len());
    let mut places = Vec::with_capacity(hits.len());
    for (index, found, cost) in hits {
        let place = items.iter().position(|(other, _)| Question::same(found, other));
        let place = place.unwrap_or_else(|| {
            let (bound, key) = (&*found.bound, Question::key(found));
            items.push((found, Item { bound, key, cost: 0 }));
            items.len() - 1
        });
        items[place].1.cost = items[place].1.cost.saturating_add(*cost);
        places.push((*index, place));
    }
    let items: Vec<Hit<'_>> = items.into_iter().map(|(_, item)| item).collect();
    let answers = match open {
        true => together(service, &items).await?,
        false => service.refuse_all(&items).await?,
    };
    Ok(places.into_iter().map(|(index, place)| (index, answers[place].clone())).collect())
}

async fn together(service: &Service, items: &[Hit<'_>]) -> Result<Vec<Answer>, RequestError> {
    match items {
        [] => Ok(Vec::new()),
        [one] => Ok(vec![service.ask(one.bound, &one.key, Operation::Hit(one.cost)).await?]),
        several => match service.hit_all(several).await {
            // The keys are somewhere else each: a cluster, say.
            Err(error) if error.kind() == RequestErrorKind::Invalid => {
                in_turn(service, several).await
            }
            answers => answers,
        },
    }
}

/// One after the other. When one refuses, those before get their charge back and those after are
/// only looked at, except limits that charge denied hits. Others may see the charge in between:
/// that may refuse too much for a moment, and never admits too much.
async fn in_turn(service: &Service, items: &[Hit<'_>]) -> Result<Vec<Answer>, RequestError> {
    let mut answers: Vec<Answer> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let answer = service.ask(item.bound, &item.key, Operation::Hit(item.cost)).await;
        if answer.as_ref().is_ok_and(Answer::passes) {
            answers.extend(answer);
            continue;
        }
        for (item, charged) in items.iter().zip(&answers) {
            if charged.verdict == Verdict::Allowed && !item.charges_denied() {
                let _ = service.ask(item.bound, &item.key, Operation::Refund(item.cost)).await?;
            }
        }
        answers.push(answer?);
        answers.extend(service.refuse_all(&items[index + 1..]).await?);
        break;
    }
    Ok(answers)
}
