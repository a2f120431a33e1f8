//! Questions about keys: one, several at once, many in one request.

use std::sync::Arc;

use futures_util::future::join_all;
use http::{Response, StatusCode};

use super::json;
use super::problem::Problem;
use super::question::{Asked, KeyText, Question, Questions};
use super::reply::{self, Reply};
use crate::service::{BoundRule, Item, Operation, Service};

/// One question: `/v1/hit` and its like.
pub(super) async fn one(
    service: &Service,
    asked: Asked,
    question: &Question<'_>,
) -> Result<Response<Reply>, Problem> {
    let bound = service.resolve(&question.namespace, &question.limit)?;
    if let Some(operation) = operation(asked, question)? {
        let answer = service.ask(&bound, &question.key, operation).await?;
        let (limits, headers) = (bound.limits_of(&question.key), bound.headers_of(&question.key));
        return Ok(reply::answer(&answer, limits, headers));
    }
    let mut body = String::new();
    rest(service, &bound, asked, &question.key, &mut body).await?;
    Ok(reply::of_json(StatusCode::OK, body))
}

/// What decides; `None` for reset and usage, which do not.
fn operation(asked: Asked, question: &Question<'_>) -> Result<Option<Operation>, Problem> {
    let cost = question.cost.unwrap_or(1);
    Ok(Some(match asked {
        Asked::Hit => Operation::Hit(cost),
        Asked::Peek => Operation::Peek(cost),
        Asked::Take => Operation::Take(cost),
        Asked::Charge => Operation::Charge(cost),
        Asked::Refund => Operation::Refund(cost),
        Asked::Set => match question.cost {
            Some(units) => Operation::Set(units),
            None => {
                return Err(Problem::wrong("cost: missing; set needs the units to put the key at"));
            }
        },
        Asked::Reset | Asked::Usage => return Ok(None),
    }))
}

async fn rest(
    service: &Service,
    bound: &BoundRule,
    asked: Asked,
    key: &KeyText<'_>,
    out: &mut String,
) -> Result<(), Problem> {
    if asked == Asked::Reset {
        let was_there = bound.reset(key).await?;
        out.push_str(if was_there { "{\"reset\":true}" } else { "{\"reset\":false}" });
        return Ok(());
    }
    let answer = service.ask(bound, key, Operation::Usage).await?;
    json::usage(&answer, bound.limits_of(key), out);
    Ok(())
}

/// Many questions, each on its own: `/v1/batch`. Whatever has no answer says why in its place.
pub(super) async fn batch(service: &Service, body: &[u8]) -> Result<Response<Reply>, Problem> {
    let questions = Questions::read(body)?;
    let mut out = String::from("{\"answers\":[");
    let answers = questions.items.iter().map(|question| in_batch(service, question));
    for (index, answer) in join_all(answers).await.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        match answer {
            Ok(answer) => out.push_str(&answer),
            Err(problem) => problem.json(&mut out),
        }
    }
    out.push_str("]}");
    Ok(reply::of_json(StatusCode::OK, out))
}

async fn in_batch(service: &Service, question: &Question<'_>) -> Result<String, Problem> {
    let bound = service.resolve(&question.namespace, &question.limit)?;
    let asked = question.operation.unwrap_or(Asked::Hit);
    let mut out = String::with_capacity(192);
    match operation(asked, question)? {
        Some(operation) => {
            let answer = service.ask(&bound, &question.key, operation).await?;
            json::answer(&answer, bound.limits_of(&question.key), &mut out);
        }
        None => rest(service, &bound, asked, &question.key, &mut out).await?,
    }
    Ok(out)
}

/// Several hits, all or nothing: `/v1/all`.
pub(super) async fn all(service: &Service, body: &[u8]) -> Result<Response<Reply>, Problem> {
    let questions = Questions::read(body)?;
    let mut bounds: Vec<Arc<BoundRule>> = Vec::with_capacity(questions.items.len());
    for question in &questions.items {
        if !matches!(question.operation, None | Some(Asked::Hit)) {
            return Err(Problem::wrong("operation: all decides on hits only"));
        }
        bounds.push(service.resolve(&question.namespace, &question.limit)?);
    }
    let items: Vec<_> = questions
        .items
        .iter()
        .zip(&bounds)
        .map(|(question, bound)| Item {
            bound,
            key: &question.key,
            cost: question.cost.unwrap_or(1),
        })
        .collect();
    let answers = service.hit_all(&items).await?;
    let passes = answers.iter().all(crate::service::Answer::passes);
    let mut out = format!("{{\"allowed\":{passes},\"answers\":[");
    for (index, (answer, item)) in answers.iter().zip(&items).enumerate() {
        if index > 0 {
            out.push(',');
        }
        json::answer(answer, item.bound.limits_of(item.key), &mut out);
    }
    out.push_str("]}");
    let status = if passes { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    Ok(reply::of_json(status, out))
}
