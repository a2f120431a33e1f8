//! Asks a store directly, without a server.

use std::error::Error;

use serde_json::Value;
use tollgate::shared::{AnyStore, SharedLimiter};
use tollgate::{Parts, Policy};

use super::{Ask, Asked, Report};
use crate::http::outcomes_json;
use crate::service::{Operation, Verdict};

pub(super) async fn ask(url: &str, asked: Asked, ask: &Ask) -> Result<Report, Box<dyn Error>> {
    let policy: Policy = ask.limit.parse().map_err(|error| {
        format!("limit {:?}: {error}; a store has no rules, so the limit is text", ask.limit)
    })?;
    let store = tollgate_stores::open(url).await?;
    let limiter = SharedLimiter::new(&store, &ask.namespace, policy)?;
    let parts: Vec<&str> = ask.key.iter().map(String::as_str).collect();
    match &parts[..] {
        [one] => of(&limiter, *one, asked, ask.cost()).await,
        several => of(&limiter, Parts(several), asked, ask.cost()).await,
    }
}

async fn of(
    limiter: &SharedLimiter<AnyStore>,
    key: impl tollgate::Key,
    asked: Asked,
    cost: u64,
) -> Result<Report, Box<dyn Error>> {
    let operation = match asked {
        Asked::Hit => Operation::Hit(cost),
        Asked::Peek => Operation::Peek(cost),
        Asked::Charge => Operation::Charge(cost),
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
    let decision = operation.run(limiter, key).await?;
    let verdict = if decision.allowed() { Verdict::Allowed } else { Verdict::Denied };
    let mut json = String::new();
    outcomes_json(verdict, Some(&decision), limiter.limits(), &mut json);
    Ok(Report(serde_json::from_str(&json)?))
}
