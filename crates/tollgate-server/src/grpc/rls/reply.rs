//! What Envoy is told.

use std::sync::Arc;
use std::time::Duration;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::Value as Json;
use tollgate::{Decision, Limit, Outcome};
use tollgate_http::{Field, LimitHeaders, PROBLEM_JSON, problem};

use super::super::options::Options;
use super::super::proto::{
    Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, Unit,
};
use super::{Question, ask};
use crate::service::{Answer, Verdict};

/// What Envoy answers to who may not pass.
const TOO_MANY_REQUESTS: u16 = 429;

/// The whole answer.
pub(super) fn of(
    options: &Options,
    domain: &str,
    questions: &[Question],
    answers: &[Option<Answer>],
) -> RateLimitResponse {
    let passes = ask::passes(questions, answers);
    let both = || questions.iter().zip(answers);
    let statuses: Vec<_> = both().map(|(question, answer)| status(question, answer)).collect();
    let mut response = RateLimitResponse {
        overall_code: code(passes).into(),
        dynamic_metadata: options
            .metadata
            .then(|| metadata(domain, passes, &statuses, questions, answers)),
        statuses,
        ..RateLimitResponse::default()
    };
    tell(options, questions, answers, &mut response);
    response
}

/// Headers, and a body for who may not pass: of all limits that can refuse. Clients see nothing of
/// a shadow.
fn tell(
    options: &Options,
    questions: &[Question],
    answers: &[Option<Answer>],
    response: &mut RateLimitResponse,
) {
    let mut add = |field: Field, value: http::HeaderValue| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let header = HeaderValue { key: field.name().to_owned(), value };
        response.response_headers_to_add.push(header);
    };
    let refused = response.overall_code == i32::from(Code::OverLimit);
    if let ([Question::Of(found, _)], [Some(answer)]) = (questions, answers)
        && !(options.problem && refused)
    {
        // The usual question, by what was made before.
        let shown = found.bound.headers_of(&Question::key(found));
        if let Some(shown) = shown.filter(|_| !found.bound.is_shadow())
            && let Some(decision) = &answer.decision
        {
            options.headers.figures(shown, decision).inspect(|figures| figures.write(add));
        }
        return;
    }
    let (limits, outcomes) = binding(questions.iter().zip(answers));
    let Some(decision) = Decision::from_outcomes(outcomes) else { return };
    let headers = Arc::new(LimitHeaders::new(&limits));
    options.headers.figures(&headers, &decision).inspect(|figures| figures.write(&mut add));
    if options.problem && !decision.allowed() {
        let key = http::header::CONTENT_TYPE.as_str().to_owned();
        let kind = HeaderValue { key, value: PROBLEM_JSON.to_owned() };
        response.response_headers_to_add.push(kind);
        response.raw_body = problem(TOO_MANY_REQUESTS, &limits, decision.outcomes()).into_bytes();
    }
}

fn code(passes: bool) -> Code {
    if passes { Code::Ok } else { Code::OverLimit }
}

fn status(question: &Question, answer: &Option<Answer>) -> DescriptorStatus {
    let Some(answer) = answer else {
        return DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() };
    };
    let code = code(answer.passes()).into();
    match (shown(question, answer), answer.verdict) {
        (Some((limit, decision)), _) => DescriptorStatus {
            code,
            current_limit: Some(RateLimit {
                requests_per_unit: fitting(limit.quota()),
                unit: Unit::of(limit.period()).into(),
                name: limit.name().unwrap_or_default().to_owned(),
            }),
            limit_remaining: fitting(decision.remaining()),
            duration_until_reset: Some(seconds(until_more(decision))),
        },
        (None, Verdict::Blocked) => DescriptorStatus {
            code,
            current_limit: Some(blocked(question)),
            duration_until_reset: Some(seconds(blocked_for(question))),
            ..DescriptorStatus::default()
        },
        (None, _) => {
            DescriptorStatus { code, limit_remaining: u32::MAX, ..DescriptorStatus::default() }
        }
    }
}

/// The limit of an answer that binds, and what it said.
fn shown<'a>(question: &'a Question, answer: &'a Answer) -> Option<(&'a Limit, &'a Outcome)> {
    let Question::Of(found, _) = question else { return None };
    let decision = answer.decision.as_ref()?;
    let limits = found.bound.limits_of(&Question::key(found));
    Some((limits.get(decision.headline_index())?, decision.headline()))
}

/// What blocks is shown as it was written.
fn blocked(question: &Question) -> RateLimit {
    let rate = match question {
        Question::Of(found, _) => found.bound.envoy().rate,
        Question::Free | Question::Blocked => None,
    };
    RateLimit {
        requests_per_unit: 0,
        unit: rate.map_or(Unit::Unknown, |rate| Unit::of(rate.unit.period())).into(),
        name: name(question).to_owned(),
    }
}

/// How long a client should wait that is blocked: the unit in which it may do nothing. No wait
/// helps it, but without one Envoy would tell it to come back after a second.
fn blocked_for(question: &Question) -> Duration {
    const HOUR: Duration = Duration::from_secs(3_600);
    match question {
        Question::Of(found, _) => found.bound.envoy().rate.map_or(HOUR, |rate| rate.unit.period()),
        Question::Free | Question::Blocked => HOUR,
    }
}

fn name(question: &Question) -> &str {
    match question {
        Question::Of(found, _) => found.bound.name(),
        Question::Free | Question::Blocked => "",
    }
}

/// When there is more: what a refused cost waits for, else until the key is as good as new. Who is
/// refused is never told that it is now.
fn until_more(decision: &Outcome) -> Duration {
    match decision.retry_after().filter(|_| !decision.allowed()) {
        Some(wait) => wait.max(Duration::from_secs(1)),
        None => decision.reset_after(),
    }
}

/// Rounded up: Envoy reads whole seconds and drops the rest.
fn seconds(span: Duration) -> prost_types::Duration {
    let seconds = span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0));
    prost_types::Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}

fn fitting(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The limits that can refuse, with what they said: headers show nothing of a shadow.
fn binding<'a>(
    both: impl Iterator<Item = (&'a Question, &'a Option<Answer>)>,
) -> (Vec<Limit>, Vec<Outcome>) {
    let (mut limits, mut outcomes) = (Vec::new(), Vec::new());
    for (question, answer) in both {
        let (Question::Of(found, _), Some(answer)) = (question, answer) else { continue };
        if !found.bound.is_shadow() {
            limits.extend_from_slice(found.bound.limits_of(&Question::key(found)));
            outcomes.extend_from_slice(answer.outcomes());
        }
    }
    (limits, outcomes)
}

/// How the answer came about, for filters and logs: rules and numbers, and nothing of the keys.
fn metadata(
    domain: &str,
    passes: bool,
    statuses: &[DescriptorStatus],
    questions: &[Question],
    answers: &[Option<Answer>],
) -> Struct {
    let each = statuses.iter().zip(questions.iter().zip(answers));
    let each = each.map(|(status, (question, answer))| {
        let verdict = answer.as_ref().map_or("free", |answer| answer.verdict.name());
        let mut fields = vec![("rule", text(name(question))), ("verdict", text(verdict))];
        if let Some(limit) = &status.current_limit {
            fields.push(("limit", number(limit.requests_per_unit)));
            fields.push(("remaining", number(status.limit_remaining)));
        }
        Value { kind: Some(Kind::StructValue(fields_of(fields))) }
    });
    let descriptors = Kind::ListValue(ListValue { values: each.collect() });
    let mut all = vec![
        ("domain", text(domain)),
        ("allowed", Value { kind: Some(Kind::BoolValue(passes)) }),
        ("descriptors", Value { kind: Some(descriptors) }),
    ];
    let written = written(questions, answers);
    if !written.is_empty() {
        all.push(("metadata", value(&written.into())));
    }
    fields_of(all)
}

/// What the rules that let pass have to say; of one word by several, the first.
fn written(questions: &[Question], answers: &[Option<Answer>]) -> serde_json::Map<String, Json> {
    let mut all = serde_json::Map::new();
    for (question, answer) in questions.iter().zip(answers) {
        let (Question::Of(found, _), Some(answer)) = (question, answer) else { continue };
        if let Some(own) = found.bound.envoy().metadata.as_ref().filter(|_| answer.passes()) {
            merge(&mut all, own);
        }
    }
    all
}

fn merge(all: &mut serde_json::Map<String, Json>, more: &serde_json::Map<String, Json>) {
    for (name, value) in more {
        match (all.get_mut(name), value) {
            (Some(Json::Object(known)), Json::Object(more)) => merge(known, more),
            (Some(_), _) => {}
            (None, value) => {
                all.insert(name.clone(), value.clone());
            }
        }
    }
}

/// JSON as protobuf has it.
fn value(json: &Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(bool) => Kind::BoolValue(*bool),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(list) => {
            Kind::ListValue(ListValue { values: list.iter().map(value).collect() })
        }
        Json::Object(fields) => {
            let fields = fields.iter().map(|(name, json)| (name.clone(), value(json)));
            Kind::StructValue(Struct { fields: fields.collect() })
        }
    };
    Value { kind: Some(kind) }
}

fn fields_of(fields: Vec<(&str, Value)>) -> Struct {
    Struct { fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
}

fn text(text: &str) -> Value {
    Value { kind: Some(Kind::StringValue(text.to_owned())) }
}

fn number(number: u32) -> Value {
    Value { kind: Some(Kind::NumberValue(number.into())) }
}
