//! `/api/v1/key`: the state of one key of one rule.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::{Decision, Key, KeyRef, Limit, Outcome};

use crate::http::{KeyText, Problem};
use crate::seconds::{Seconds, unix_now};
use crate::service::{BoundRule, Operation, RuleDecision, Service, Verdict};

/// A request about a key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request<'a> {
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    domain: Cow<'a, str>,
    /// The name of a rule, or a limit as text. Not needed for a key of a domain.
    #[serde(borrow, default)]
    rule: Cow<'a, str>,
    /// A text, or a list of parts; for a domain keys and values in turn.
    #[serde(borrow)]
    key: KeyText<'a>,
    /// Units to give back or to set.
    pub(super) units: Option<u64>,
}

impl<'a> Request<'a> {
    /// A request about a key of a rule. The name of the rule is not used in a domain.
    pub(super) fn of(
        namespace: Cow<'a, str>,
        domain: Cow<'a, str>,
        rule: Cow<'a, str>,
        key: KeyText<'a>,
    ) -> Request<'a> {
        Request { namespace, domain, rule, key, units: None }
    }

    pub(super) fn read(body: &'a [u8]) -> Result<Request<'a>, Problem> {
        serde_json::from_slice(body).map_err(|error| Problem::wrong(format!("body: {error}")))
    }

    /// The rule and the key.
    pub(super) fn find(&self, service: &Service) -> Result<Found<'_>, Problem> {
        if self.domain.is_empty() {
            let rule = service.resolve(&self.namespace, &self.rule)?;
            return Ok(Found { rule, domain: "", namespace: &self.namespace, key: &self.key });
        }
        let parts = match &self.key {
            KeyText::Several(parts) if parts.len().is_multiple_of(2) => parts,
            _ => {
                let wrong = "key: expected a list of keys and values in turn, as a domain has them";
                return Err(Problem::wrong(wrong));
            }
        };
        let entries: Vec<(&str, &str)> =
            parts.chunks_exact(2).map(|pair| (&*pair[0], &*pair[1])).collect();
        let found = service.find_in_domain(&self.domain, &entries).ok_or_else(|| {
            let detail = format!("domain {:?}: has no rule for these entries", self.domain);
            Problem::new(http::StatusCode::NOT_FOUND, detail)
        })?;
        Ok(Found { rule: found.rule, domain: &self.domain, namespace: "", key: &self.key })
    }
}

/// A rule and a key of it.
pub(super) struct Found<'a> {
    pub(super) rule: Arc<BoundRule>,
    pub(super) namespace: &'a str,
    pub(super) domain: &'a str,
    key: &'a KeyText<'a>,
}

impl Key for Found<'_> {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        self.key.with_key(f)
    }
}

pub(super) async fn answer(service: &Service, body: &[u8]) -> Result<Value, Problem> {
    let request = Request::read(body)?;
    state(service, &request.find(service)?).await
}

/// The state of the key now. Its next decisions are noted for a while.
pub(super) async fn state(service: &Service, found: &Found<'_>) -> Result<Value, Problem> {
    let rule = &found.rule;
    let decision = service.execute(rule, found, Operation::Peek(1)).await?;
    let recent = found.with_key(|key| service.observer().watched(rule.stats(), key));
    let limits = decision.outcomes().iter().zip(decision.limits());
    let limits: Vec<_> = limits.map(|(outcome, limit)| state_of(outcome, limit)).collect();
    let recent: Vec<_> = recent
        .iter()
        .map(|decision| json!({ "at_us": decision.at, "verdict": decision.verdict.name() }))
        .collect();
    Ok(json!({
        "now": unix_now(),
        "namespace": found.namespace,
        "domain": found.domain,
        "rule": rule.name(),
        "shadow": rule.is_shadow(),
        // The verdict on a hit of cost 1 now.
        "verdict": decision.verdict.name(),
        "reasons": reasons(&decision),
        "limits": limits,
        "recent": recent,
    }))
}

fn state_of(outcome: &Outcome, limit: &Limit) -> Value {
    let fields = outcome.fields();
    let reset = fields.fresh_at.map(|at| at.since(outcome.now())).unwrap_or_default();
    json!({
        "text": limit.to_string(),
        "admits": limit.describe().admits,
        "allowed": outcome.allowed(),
        // If this is true, the units below are denials.
        "ban": outcome.is_ban(),
        "limit": fields.limit,
        "used": fields.used,
        "remaining": fields.remaining,
        "retry_after_us": outcome.retry_after().map(micros),
        "reset_after_us": micros(reset),
        "source": outcome.source().name(),
        "bound": outcome.bound(),
    })
}

pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// A wait for people: whole seconds, and milliseconds below one.
fn rounded_up(wait: Duration) -> Duration {
    let unit = if wait >= Duration::from_secs(1) { 1_000_000_000 } else { 1_000_000 };
    let nanos = wait.as_nanos().div_ceil(unit).saturating_mul(unit);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Why a hit would be denied now, one sentence for each reason.
fn reasons(decision: &RuleDecision<'_>) -> Vec<String> {
    match decision.verdict {
        Verdict::Allowed => return Vec::new(),
        Verdict::Exempt => return vec!["the key is exempt: it is never limited".to_owned()],
        Verdict::Blocked => return vec!["the key is blocked: it never passes".to_owned()],
        Verdict::Banned => {
            let ban = decision.decision.as_ref().and_then(Decision::retry_after);
            let wait = ban.map_or(Duration::ZERO, rounded_up);
            return vec![format!(
                "the key is banned because it was denied too often; the ban ends in {} s",
                Seconds(wait)
            )];
        }
        Verdict::Denied | Verdict::Shadowed => {}
    }
    let outcomes = decision.outcomes().iter().zip(decision.limits());
    let denied = outcomes.filter(|(outcome, _)| !outcome.allowed()).map(|(outcome, limit)| {
        let (used, capacity) = (outcome.used(), outcome.limit());
        let when = match outcome.retry_after() {
            Some(wait) => format!("a hit passes in {} s", Seconds(rounded_up(wait))),
            None => "a hit costs more than the limit can ever admit".to_owned(),
        };
        format!("{used} of {capacity} are in use ({limit}); {when}")
    });
    let shadow = (decision.verdict == Verdict::Shadowed)
        .then(|| "the rule is in shadow mode: hits pass although they are denied".to_owned());
    denied.chain(shadow).collect()
}
