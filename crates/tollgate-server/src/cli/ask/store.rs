//! Asks a store directly, without a server.

use std::error::Error;

use serde_json::Value;
use tollgate::shared::{AnyStore, SharedLimiter};
use tollgate::{Decision, Parts, Policy};

use super::{Ask, Asked, RefundBy, Report};
use crate::http::{outcomes_json, receipts_json};
use crate::service::{Operation, Receipts, Verdict};

pub(super) async fn ask(url: &str, asked: Asked, ask: &Ask) -> Result<Report, Box<dyn Error>> {
    let policy: Policy = ask.limit.parse().map_err(|error| {
        format!("limit {:?}: {error}; a store has no rules, so the limit is text", ask.limit)
    })?;
    let store = tollgate_stores::open(url).await?;
    let limiter = SharedLimiter::new(&store, &ask.namespace, policy)?;
    let parts: Vec<&str> = ask.key.iter().map(String::as_str).collect();
    match &parts[..] {
        [one] => of(&limiter, *one, asked, ask).await,
        several => of(&limiter, Parts(several), asked, ask).await,
    }
}

async fn of(
    limiter: &SharedLimiter<AnyStore>,
    key: impl tollgate::Key,
    asked: Asked,
    ask: &Ask,
) -> Result<Report, Box<dyn Error>> {
    let cost = ask.cost();
    let operation = match asked {
        Asked::Hit => Operation::Hit(cost),
        Asked::Peek => Operation::Peek(cost),
        Asked::Charge => Operation::Charge(cost),
        Asked::Refund if !ask.refund.receipt.is_empty() => {
            return refund(limiter, key, &ask.refund).await;
        }
        Asked::Refund => Operation::Refund(cost),
        Asked::Set => Operation::Set(cost),
        Asked::Reset => return Ok(Report(serde_json::json!({"reset": limiter.reset(key).await?}))),
        Asked::Usage => {
            let decision = Operation::Usage.run(limiter, key).await?;
            let used: Vec<_> = decision.outcomes().iter().map(tollgate::Outcome::used).collect();
            let used = match &used[..] {
                [one] => Value::from(*one),
                several => Value::from(several),
            };
            return Ok(Report(serde_json::json!({"used": used})));
        }
    };
    let decision = operation.run(limiter, &key).await?;
    let mut json = fields(limiter, &decision);
    receipts_json(limiter.limits(), limiter.wire_receipts(key, &decision), &mut json);
    Ok(Report(serde_json::from_str(&(json + "}"))?))
}

async fn refund(
    limiter: &SharedLimiter<AnyStore>,
    key: impl tollgate::Key,
    RefundBy { receipt, units }: &RefundBy,
) -> Result<Report, Box<dyn Error>> {
    let receipts = Receipts::read(receipt.iter().map(String::as_str), *units)?;
    let refund = limiter.refund_wire_receipts(key, &receipts.list, receipts.units).await?;
    let mut report: Value = serde_json::from_str(&(fields(limiter, &refund.decision) + "}"))?;
    if !refund.ignored.is_empty() {
        report["ignored"] = refund.ignored.iter().map(ToString::to_string).collect();
    }
    Ok(Report(report))
}

/// The fields of a decision as JSON, without the last brace.
fn fields(limiter: &SharedLimiter<AnyStore>, decision: &Decision) -> String {
    let verdict = match (decision.allowed(), decision.banned()) {
        (true, _) => Verdict::Allowed,
        (false, true) => Verdict::Banned,
        (false, false) => Verdict::Denied,
    };
    let mut json = "{".to_owned();
    outcomes_json(verdict, Some(decision), limiter.limits(), &mut json);
    json
}
