//! Writes Envoy's response: statuses, headers, body and metadata.

use std::sync::Arc;
use std::time::Duration;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::Value as Json;
use tollgate::{CalendarUnit, Decision, Limit, Outcome, seconds_up};
use tollgate_http::{Field, LimitHeaders, PROBLEM_JSON, problem};

use super::super::options::Options;
use super::super::proto::{
    Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, Unit,
};
use super::DescriptorLimit;
use super::decide::{self, Decisions};
use crate::service::{RuleDecision, Verdict};

/// The status of Envoy's response to a denied request.
const TOO_MANY_REQUESTS: u16 = 429;

/// The whole response.
pub(super) fn response(
    options: &Options,
    domain: &str,
    limits: &[DescriptorLimit],
    decisions: &Decisions<'_>,
) -> RateLimitResponse {
    let passes = decide::passes(limits, decisions);
    let both = limits.iter().zip(decisions);
    let statuses: Vec<_> = both.map(|(limit, decision)| status(limit, decision)).collect();
    let mut response = RateLimitResponse {
        overall_code: code(passes).into(),
        dynamic_metadata: options
            .metadata
            .then(|| metadata(domain, passes, &statuses, limits, decisions)),
        statuses,
        ..RateLimitResponse::default()
    };
    write_headers(options, limits, decisions, &mut response);
    response
}

/// Adds headers, and a body for a denied request, for all limits that can deny. Clients see nothing
/// of a rule in shadow mode.
fn write_headers(
    options: &Options,
    limits: &[DescriptorLimit],
    decisions: &Decisions<'_>,
    response: &mut RateLimitResponse,
) {
    let mut add = |field: Field, value: http::HeaderValue| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let header = HeaderValue { key: field.name().to_owned(), value };
        response.response_headers_to_add.push(header);
    };
    let denied = response.overall_code == i32::from(Code::OverLimit);
    if let ([DescriptorLimit::Limited(found, _)], [Some(decision)]) = (limits, decisions)
        && !(options.problem && denied)
    {
        // For most requests the texts of the headers were made once for the rule.
        if !found.rule.is_shadow() {
            decision.figures(&options.headers).inspect(|figures| figures.write(add));
        }
        return;
    }
    let (limits, outcomes) = binding(limits.iter().zip(decisions));
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

fn status(limit: &DescriptorLimit, decision: &Option<RuleDecision<'_>>) -> DescriptorStatus {
    let Some(decision) = decision else {
        return DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() };
    };
    let code = code(decision.passes()).into();
    match (headline(decision), decision.verdict) {
        (Some((limit, outcome)), _) => DescriptorStatus {
            code,
            current_limit: Some(RateLimit {
                requests_per_unit: fitting(limit.quota()),
                unit: unit(limit).into(),
                name: limit.name().unwrap_or_default().to_owned(),
            }),
            limit_remaining: fitting(outcome.remaining()),
            duration_until_reset: Some(seconds(until_more(outcome))),
        },
        (None, Verdict::Blocked) => DescriptorStatus {
            code,
            current_limit: Some(blocked(limit)),
            duration_until_reset: Some(seconds(blocked_for(limit))),
            ..DescriptorStatus::default()
        },
        (None, _) => {
            DescriptorStatus { code, limit_remaining: u32::MAX, ..DescriptorStatus::default() }
        }
    }
}

/// The unit of a limit. A quarter has none.
fn unit(limit: &Limit) -> Unit {
    match limit.calendar().map(|calendar| calendar.unit()) {
        Some(CalendarUnit::Month) => Unit::Month,
        Some(CalendarUnit::Year) => Unit::Year,
        _ => Unit::from_period(limit.period()),
    }
}

/// The limit and the outcome of the headline.
fn headline<'d>(decision: &'d RuleDecision<'_>) -> Option<(&'d Limit, &'d Outcome)> {
    let outcomes = decision.decision.as_ref()?;
    Some((decision.limits().get(outcomes.named_index())?, outcomes.headline()))
}

/// A blocked descriptor shows the rate of its configuration.
fn blocked(limit: &DescriptorLimit) -> RateLimit {
    let rate = match limit {
        DescriptorLimit::Limited(found, _) => found.rule.envoy().rate,
        DescriptorLimit::Unlimited | DescriptorLimit::Blocked => None,
    };
    RateLimit {
        requests_per_unit: 0,
        unit: rate.map_or(Unit::Unknown, |rate| Unit::from_period(rate.unit.period())).into(),
        name: name(limit).to_owned(),
    }
}

/// The wait of a blocked client: the unit of its rate. No wait helps it, but without one Envoy
/// would ask it to come back after a second.
fn blocked_for(limit: &DescriptorLimit) -> Duration {
    const HOUR: Duration = Duration::from_secs(3_600);
    match limit {
        DescriptorLimit::Limited(found, _) => {
            found.rule.envoy().rate.map_or(HOUR, |rate| rate.unit.period())
        }
        DescriptorLimit::Unlimited | DescriptorLimit::Blocked => HOUR,
    }
}

fn name(limit: &DescriptorLimit) -> &str {
    match limit {
        DescriptorLimit::Limited(found, _) => found.rule.name(),
        DescriptorLimit::Unlimited | DescriptorLimit::Blocked => "",
    }
}

/// The wait until a denied cost fits, which is never zero, else until the key is fresh.
fn until_more(decision: &Outcome) -> Duration {
    match decision.retry_after().filter(|_| !decision.allowed()) {
        Some(wait) => wait.max(Duration::from_secs(1)),
        None => decision.reset_after(),
    }
}

/// Rounded up: Envoy reads whole seconds and drops the rest.
fn seconds(span: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(seconds_up(span)).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: 0 }
}

fn fitting(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The limits that can deny, with their outcomes: headers show nothing of a rule in shadow mode.
fn binding<'a>(
    both: impl Iterator<Item = (&'a DescriptorLimit, &'a Option<RuleDecision<'a>>)>,
) -> (Vec<Limit>, Vec<Outcome>) {
    let (mut limits, mut outcomes) = (Vec::new(), Vec::new());
    for (limit, decision) in both {
        let (DescriptorLimit::Limited(found, _), Some(decision)) = (limit, decision) else {
            continue;
        };
        if !found.rule.is_shadow() {
            limits.extend_from_slice(decision.limits());
            outcomes.extend_from_slice(decision.outcomes());
        }
    }
    (limits, outcomes)
}

/// How the decision was made, for filters and logs: rules and numbers, and nothing of the keys.
fn metadata(
    domain: &str,
    passes: bool,
    statuses: &[DescriptorStatus],
    limits: &[DescriptorLimit],
    decisions: &Decisions<'_>,
) -> Struct {
    let each = statuses.iter().zip(limits.iter().zip(decisions));
    let each = each.map(|(status, (limit, decision))| {
        let verdict = decision.as_ref().map_or("free", |decision| decision.verdict.name());
        let mut fields = vec![("rule", text(name(limit))), ("verdict", text(verdict))];
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
    let written = written(limits, decisions);
    if !written.is_empty() {
        all.push(("metadata", value(&written.into())));
    }
    fields_of(all)
}

/// The metadata of the rules that pass; of several with one name, the first.
fn written(limits: &[DescriptorLimit], decisions: &Decisions<'_>) -> serde_json::Map<String, Json> {
    let mut all = serde_json::Map::new();
    for (limit, decision) in limits.iter().zip(decisions) {
        let (DescriptorLimit::Limited(found, _), Some(decision)) = (limit, decision) else {
            continue;
        };
        if let Some(own) = found.rule.envoy().metadata.as_ref().filter(|_| decision.passes()) {
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
