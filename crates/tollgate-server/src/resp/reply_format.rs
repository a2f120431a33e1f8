//! Writes a decision in the format of its command.

use std::time::Duration;

use tollgate::{Decision, Outcome, Timestamp, WireReceipt, seconds_up};

use super::reply::Reply;
use crate::service::{RequestError, RequestErrorKind, RuleDecision, RuleRefund};

/// The format of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyFormat {
    /// The five numbers of redis-cell.
    RedisCell,
    /// The five numbers of throttlecrab.
    Throttlecrab,
    /// All fields with their names.
    Fields,
    /// All fields, and the receipts of what was charged.
    FieldsAndReceipts,
    /// 1 if the hit passes, else 0.
    Passes,
    /// Units in use.
    Usage,
}

/// Sent when a number is absent.
const NONE: i64 = -1;

impl ReplyFormat {
    /// Writes a decision on this key.
    pub(super) fn write(self, decision: &RuleDecision<'_>, key: &[u8], reply: &mut Reply<'_>) {
        match self {
            ReplyFormat::RedisCell => redis_cell(decision, reply),
            ReplyFormat::Throttlecrab => throttlecrab(decision, reply),
            ReplyFormat::Fields => fields(decision, None, reply),
            ReplyFormat::FieldsAndReceipts => {
                let receipts = decision.receipts(key).collect();
                fields(decision, Some(("receipt", receipts)), reply);
            }
            ReplyFormat::Passes => reply.integer(i64::from(decision.passes())),
            ReplyFormat::Usage => reply.count(decision.used()),
        }
    }
}

/// 0 for allowed, limit, remaining, seconds until retry or -1, seconds until full.
fn redis_cell(rule: &RuleDecision<'_>, reply: &mut Reply<'_>) {
    let Some(decision) = &rule.decision else { return };
    let (fields, now) = (decision.fields(), decision.now());
    let limit = decision.outcomes().get(decision.named_index()).map_or(0, Outcome::limit);
    let allowed = rule.passes();
    let retry = fields.retry_at.filter(|_| !allowed).map_or(NONE, |at| seconds(at, now));
    reply.array(5);
    reply.integer(i64::from(!allowed));
    reply.count(limit);
    reply.count(fields.remaining);
    reply.integer(retry);
    reply.integer(fields.fresh_at.map_or(0, |at| seconds(at, now)));
}

/// 1 for allowed, limit, remaining, seconds until full, seconds until retry; -1 where no wait
/// helps.
fn throttlecrab(rule: &RuleDecision<'_>, reply: &mut Reply<'_>) {
    let Some(decision) = &rule.decision else { return };
    let (fields, now) = (decision.fields(), decision.now());
    let limit = decision.outcomes().get(decision.named_index()).map_or(0, Outcome::limit);
    let allowed = rule.passes();
    reply.array(5);
    reply.integer(i64::from(allowed));
    reply.count(limit);
    reply.count(fields.remaining);
    reply.integer(fields.fresh_at.map_or(0, |at| seconds(at, now)));
    reply.integer(if allowed { 0 } else { fields.retry_at.map_or(NONE, |at| seconds(at, now)) });
}

fn seconds(at: Timestamp, now: Timestamp) -> i64 {
    i64::try_from(seconds_up(at.since(now))).unwrap_or(i64::MAX)
}

/// All fields, and a list of receipts with the name of its field.
fn fields(
    rule: &RuleDecision<'_>,
    receipts: Option<(&str, Vec<WireReceipt>)>,
    reply: &mut Reply<'_>,
) {
    let outcomes = rule.outcomes();
    let several = outcomes.len() > 1;
    reply.map(10 + usize::from(several) + usize::from(receipts.is_some()));
    reply.bulk(b"verdict");
    reply.bulk(rule.verdict.name().as_bytes());
    reply.bulk(b"allowed");
    reply.integer(i64::from(rule.passes()));
    match &rule.decision {
        Some(decision) => {
            numbers(decision.headline(), reply);
            reply.bulk(b"source");
            reply.bulk(decision.source().name().as_bytes());
            reply.bulk(b"bound");
            reply.integer(
                decision.bound().map_or(NONE, |bound| i64::try_from(bound).unwrap_or(i64::MAX)),
            );
        }
        None => {
            for name in NUMBERS {
                reply.bulk(name);
                reply.integer(NONE);
            }
            reply.bulk(b"source");
            reply.bulk(b"rule");
            reply.bulk(b"bound");
            reply.integer(0);
        }
    }
    if several {
        reply.bulk(b"limits");
        reply.array(outcomes.len());
        for outcome in outcomes {
            reply.map(7);
            reply.bulk(b"allowed");
            reply.integer(i64::from(outcome.allowed()));
            numbers(outcome, reply);
        }
    }
    if let Some((name, receipts)) = receipts {
        reply.bulk(name.as_bytes());
        reply.array(receipts.len());
        let mut text = String::with_capacity(WireReceipt::LENGTH);
        for receipt in receipts {
            text.clear();
            receipt.push_to(&mut text);
            reply.bulk(text.as_bytes());
        }
    }
}

/// The state after a refund by receipts.
pub(super) fn refund(refund: RuleRefund<'_>, reply: &mut Reply<'_>) {
    fields(&refund.decision, Some(("ignored", refund.ignored)), reply);
}

const NUMBERS: [&[u8]; 6] =
    [b"limit", b"remaining", b"used", b"charged", b"retry_after", b"reset_after"];

/// Times in microseconds.
fn numbers(outcome: &Outcome, reply: &mut Reply<'_>) {
    let fields = outcome.fields();
    let until = |at: Timestamp| micros(at.since(outcome.now()));
    let retry = match outcome.allowed() {
        true => 0,
        false => fields.retry_at.map_or(NONE, until),
    };
    let reset = fields.fresh_at.map_or(0, until);
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let values = [
        count(fields.limit),
        count(fields.remaining),
        count(fields.used),
        count(outcome.charged()),
        retry,
        reset,
    ];
    for (name, value) in NUMBERS.into_iter().zip(values) {
        reply.bulk(name);
        reply.integer(value);
    }
}

/// The decisions on hits of which all are charged or none, each with its key.
pub(super) fn all<'k>(
    decisions: &[RuleDecision<'_>],
    keys: impl Iterator<Item = &'k [u8]>,
    format: ReplyFormat,
    reply: &mut Reply<'_>,
) {
    let allowed = decisions.iter().all(RuleDecision::passes);
    reply.map(3);
    reply.bulk(b"allowed");
    reply.integer(i64::from(allowed));
    reply.bulk(b"retry_after");
    reply.integer(longest_wait(decisions));
    reply.bulk(b"items");
    reply.array(decisions.len());
    for (decision, key) in decisions.iter().zip(keys) {
        format.write(decision, key, reply);
    }
}

/// The longest wait of those that are denied, -1 if one of them will never pass.
fn longest_wait(decisions: &[RuleDecision<'_>]) -> i64 {
    let mut longest = 0;
    for denied in decisions.iter().filter(|decision| !decision.passes()) {
        match denied.decision.as_ref().and_then(Decision::retry_after) {
            Some(wait) => longest = longest.max(micros(wait)),
            None => return NONE,
        }
    }
    longest
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// An error is never a decision.
pub(super) fn error(error: &RequestError, reply: &mut Reply<'_>) {
    let code = match error.kind() {
        RequestErrorKind::Invalid => "ERR",
        RequestErrorKind::UnknownRule => "UNKNOWN",
        RequestErrorKind::Store => "STORE",
    };
    reply.error(code, error);
}
