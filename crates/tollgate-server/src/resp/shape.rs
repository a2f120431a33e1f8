//! The form of a reply, by the command that asked.

use std::time::Duration;

use tollgate::{Decision, Outcome, Timestamp};

use super::reply::Reply;
use crate::service::{Answer, RequestError, RequestErrorKind};

/// The form of a command's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// redis-cell's five numbers.
    Cell,
    /// throttlecrab's five numbers.
    Crab,
    /// All fields with their names.
    Native,
    /// 1 if allowed, else 0.
    Passes,
    /// Units in use.
    Usage,
}

/// The number that stands for a missing one.
const NONE: i64 = -1;

impl Shape {
    pub(super) fn tell(self, answer: &Answer, reply: &mut Reply<'_>) {
        match self {
            Shape::Cell => cell(answer, reply),
            Shape::Crab => crab(answer, reply),
            Shape::Native => native(answer, reply),
            Shape::Passes => reply.integer(i64::from(answer.passes())),
            Shape::Usage => {
                let used = answer.decision.as_ref().map_or(0, Decision::used);
                reply.count(used);
            }
        }
    }
}

/// 0 for allowed, limit, remaining, seconds until retry or -1, seconds until full.
fn cell(answer: &Answer, reply: &mut Reply<'_>) {
    let Some(decision) = &answer.decision else { return };
    let (fields, now) = (decision.fields(), decision.now());
    let allowed = answer.passes();
    let retry = fields.retry_at.filter(|_| !allowed).map_or(NONE, |at| seconds(at, now));
    reply.array(5);
    reply.integer(i64::from(!allowed));
    reply.count(fields.limit);
    reply.count(fields.remaining);
    reply.integer(retry);
    reply.integer(fields.fresh_at.map_or(0, |at| seconds(at, now)));
}

/// 1 for allowed, limit, remaining, seconds until full, seconds until retry; -1 where no wait
/// helps.
fn crab(answer: &Answer, reply: &mut Reply<'_>) {
    let Some(decision) = &answer.decision else { return };
    let (fields, now) = (decision.fields(), decision.now());
    let allowed = answer.passes();
    reply.array(5);
    reply.integer(i64::from(allowed));
    reply.count(fields.limit);
    reply.count(fields.remaining);
    reply.integer(fields.fresh_at.map_or(0, |at| seconds(at, now)));
    reply.integer(if allowed { 0 } else { fields.retry_at.map_or(NONE, |at| seconds(at, now)) });
}

/// Whole seconds, rounded up, so that a client that waits them is never too early.
fn seconds(at: Timestamp, now: Timestamp) -> i64 {
    let micros = at.as_micros().saturating_sub(now.as_micros());
    i64::try_from(micros.div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

fn native(answer: &Answer, reply: &mut Reply<'_>) {
    let outcomes = answer.outcomes();
    let several = outcomes.len() > 1;
    reply.map(if several { 11 } else { 10 });
    reply.bulk(b"verdict");
    reply.bulk(answer.verdict.name().as_bytes());
    reply.bulk(b"allowed");
    reply.integer(i64::from(answer.passes()));
    match &answer.decision {
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
        for decision in outcomes {
            reply.map(7);
            reply.bulk(b"allowed");
            reply.integer(i64::from(decision.allowed()));
            numbers(decision, reply);
        }
    }
}

const NUMBERS: [&[u8]; 6] =
    [b"limit", b"remaining", b"used", b"charged", b"retry_after", b"reset_after"];

/// Times in microseconds.
fn numbers(decision: &Outcome, reply: &mut Reply<'_>) {
    let fields = decision.fields();
    let until = |at: Timestamp| micros(at.since(decision.now()));
    let retry = match decision.allowed() {
        true => 0,
        false => fields.retry_at.map_or(NONE, until),
    };
    let reset = fields.fresh_at.map_or(0, until);
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let values = [
        count(fields.limit),
        count(fields.remaining),
        count(fields.used),
        count(decision.charged()),
        retry,
        reset,
    ];
    for (name, value) in NUMBERS.into_iter().zip(values) {
        reply.bulk(name);
        reply.integer(value);
    }
}

pub(super) fn all(answers: &[Answer], reply: &mut Reply<'_>) {
    let allowed = answers.iter().all(Answer::passes);
    reply.map(3);
    reply.bulk(b"allowed");
    reply.integer(i64::from(allowed));
    reply.bulk(b"retry_after");
    reply.integer(longest(answers));
    reply.bulk(b"items");
    reply.array(answers.len());
    for answer in answers {
        native(answer, reply);
    }
}

/// The longest wait of the answers that deny, -1 if one of them never passes.
fn longest(answers: &[Answer]) -> i64 {
    let mut longest = 0;
    for answer in answers.iter().filter(|answer| !answer.passes()) {
        let wait = answer.decision.as_ref().and_then(Decision::retry_after);
        match wait {
            Some(wait) => longest = longest.max(micros(wait)),
            None => return NONE,
        }
    }
    longest
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Writes an error, which is never a decision.
pub(super) fn error(error: &RequestError, reply: &mut Reply<'_>) {
    let code = match error.kind() {
        RequestErrorKind::Invalid => "ERR",
        RequestErrorKind::UnknownRule => "UNKNOWN",
        RequestErrorKind::Store => "STORE",
    };
    reply.error(code, error);
}
