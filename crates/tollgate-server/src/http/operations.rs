//! Operations on keys: one, several at once, many in one request.

use std::sync::Arc;

use futures_util::future::join_all;
use http::{Response, StatusCode};

use super::json;
use super::key_request::{KeyRequest, KeyRequests, Verb};
use super::problem::Problem;
use super::reply::{self, Reply};
use crate::service::{BoundRule, Operation, RuleDecision, RuleHit, Service};

/// One operation: `/v1/hit` and its like.
pub(super) async fn one(
    service: &Service,
    verb: Verb,
    request: &KeyRequest<'_>,
) -> Result<Response<Reply>, Problem> {
    let rule = service.resolve(&request.namespace, &request.limit)?;
    if let Some(operation) = operation(verb, request)? {
        let decision = service.execute(&rule, &request.key, operation).await?;
        return Ok(reply::decision(&decision, &request.key));
    }
    let mut body = String::new();
    without_decision(service, &rule, verb, request, &mut body).await?;
    Ok(reply::of_json(StatusCode::OK, body))
}

/// The operation that decides; `None` for reset, usage and a refund by receipts.
fn operation(verb: Verb, request: &KeyRequest<'_>) -> Result<Option<Operation>, Problem> {
    request.check(verb)?;
    let cost = request.cost.unwrap_or(1);
    Ok(Some(match verb {
        Verb::Hit => Operation::Hit(cost),
        Verb::Peek => Operation::Peek(cost),
        Verb::Take => Operation::Take(cost),
        Verb::Charge => Operation::Charge(cost),
        Verb::Refund if request.receipt.is_none() => Operation::Refund(cost),
        Verb::Set => match request.cost {
            Some(units) => Operation::Set(units),
            None => {
                return Err(Problem::wrong("cost: missing; set needs the units to put the key at"));
            }
        },
        Verb::Refund | Verb::Reset | Verb::Usage => return Ok(None),
    }))
}

async fn without_decision(
    service: &Service,
    rule: &BoundRule,
    verb: Verb,
    request: &KeyRequest<'_>,
    out: &mut String,
) -> Result<(), Problem> {
    let key = &request.key;
    if let Some(receipts) = request.receipts()? {
        json::refund(&service.refund_receipts(rule, key, &receipts).await?, out);
        return Ok(());
    }
    if verb == Verb::Reset {
        let was_there = rule.reset(key).await?;
        out.push_str(if was_there { "{\"reset\":true}" } else { "{\"reset\":false}" });
        return Ok(());
    }
    json::usage(&service.execute(rule, key, Operation::Usage).await?, out);
    Ok(())
}

/// Many operations, independent of each other: `/v1/batch`. An error stands in the place of its
/// decision.
pub(super) async fn batch(service: &Service, body: &[u8]) -> Result<Response<Reply>, Problem> {
    let requests = KeyRequests::read(body)?;
    let mut out = String::from("{\"answers\":[");
    let answers = requests.items.iter().map(|request| in_batch(service, request));
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

async fn in_batch(service: &Service, request: &KeyRequest<'_>) -> Result<String, Problem> {
    let rule = service.resolve(&request.namespace, &request.limit)?;
    let verb = request.operation.unwrap_or(Verb::Hit);
    let mut out = String::with_capacity(288);
    match operation(verb, request)? {
        Some(operation) => {
            let decision = service.execute(&rule, &request.key, operation).await?;
            json::decision(&decision, &request.key, &mut out);
        }
        None => without_decision(service, &rule, verb, request, &mut out).await?,
    }
    Ok(out)
}

/// Several hits, all or nothing: `/v1/all`.
pub(super) async fn all(service: &Service, body: &[u8]) -> Result<Response<Reply>, Problem> {
    let requests = KeyRequests::read(body)?;
    let mut rules: Vec<Arc<BoundRule>> = Vec::with_capacity(requests.items.len());
    for request in &requests.items {
        if !matches!(request.operation, None | Some(Verb::Hit)) {
            return Err(Problem::wrong("operation: all decides on hits only"));
        }
        request.check(Verb::Hit)?;
        rules.push(service.resolve(&request.namespace, &request.limit)?);
    }
    let hits = requests.items.iter().zip(&rules);
    let hits: Vec<_> = hits
        .map(|(request, rule)| RuleHit { rule, key: &request.key, cost: request.cost.unwrap_or(1) })
        .collect();
    let decisions = service.hit_all(&hits).await?;
    let passes = decisions.iter().all(RuleDecision::passes);
    let mut out = format!("{{\"allowed\":{passes},\"answers\":[");
    for (index, (decision, request)) in decisions.iter().zip(&requests.items).enumerate() {
        if index > 0 {
            out.push(',');
        }
        json::decision(decision, &request.key, &mut out);
    }
    out.push_str("]}");
    let status = if passes { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    Ok(reply::of_json(status, out))
}
