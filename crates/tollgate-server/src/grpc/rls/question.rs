//! The question that each descriptor asks.

use tollgate::{Algorithm, Limit, Policy};

use super::super::options::Options;
use super::super::proto::{Entry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, Unit};
use crate::service::{self, DescriptorKey, Match, Operation, RequestError, Service};

/// The name of a limit that came with a request. Because the limit has a name, its quota may change
/// from one request to the next and the count stays.
const OVERRIDE: &str = "override";

/// The question of one descriptor.
#[derive(Debug)]
pub(super) enum Question {
    /// No question: no limit applies.
    Free,
    /// No question: the descriptor is always denied.
    Blocked,
    /// A question about the limit of a rule.
    Of(Match, Operation),
}

impl Question {
    /// The key of the counter.
    pub(super) fn key(found: &Match) -> &DescriptorKey {
        &found.key
    }

    /// Whether a denial takes effect only when all other quotas of the request deny too.
    pub(super) fn is_quota(&self) -> bool {
        matches!(self, Question::Of(found, _) if found.bound.envoy().quota)
    }

    /// Whether two matches count on one counter.
    pub(super) fn same(one: &Match, other: &Match) -> bool {
        std::sync::Arc::ptr_eq(&one.bound, &other.bound) && one.key == other.key
    }
}

impl service::Entry for Entry {
    fn key(&self) -> &str {
        &self.key
    }

    fn value(&self) -> &[u8] {
        &self.value
    }
}

/// The questions of a request, one for each descriptor, in order.
pub(super) fn all(
    service: &Service,
    options: &Options,
    request: &RateLimitRequest,
) -> Result<Vec<Question>, RequestError> {
    check(options, request)?;
    let question = |descriptor| question(service, request, descriptor);
    let mut questions = request.descriptors.iter().map(question).collect::<Result<Vec<_>, _>>()?;
    replace(&mut questions);
    Ok(questions)
}

fn check(options: &Options, request: &RateLimitRequest) -> Result<(), RequestError> {
    let (count, most) = (request.descriptors.len(), options.max_descriptors);
    if request.domain.is_empty() {
        return Err(RequestError::invalid("domain \"\": must not be empty"));
    }
    if count == 0 || count > most {
        let text = format!("descriptors: {count}; expected 1 to {most}");
        return Err(RequestError::invalid(text));
    }
    for (index, descriptor) in request.descriptors.iter().enumerate() {
        if descriptor.entries.is_empty() {
            let text = format!("descriptors[{index}]: 0 entries, and there must be at least 1");
            return Err(RequestError::invalid(text));
        }
        if let Some(entry) = descriptor.entries.iter().position(|entry| entry.key.is_empty()) {
            let text = format!("descriptors[{index}].entries[{entry}].key \"\": must not be empty");
            return Err(RequestError::invalid(text));
        }
    }
    Ok(())
}

fn question(
    service: &Service,
    request: &RateLimitRequest,
    descriptor: &RateLimitDescriptor,
) -> Result<Question, RequestError> {
    let found = match descriptor.limit {
        Some(RateLimitOverride { requests_per_unit: 0, .. }) => return Ok(Question::Blocked),
        Some(given) => Some(overridden(service, &request.domain, descriptor, given)?),
        None => service.matching(&request.domain, &descriptor.entries),
    };
    let Some(found) = found else { return Ok(Question::Free) };
    let operation = match operation(request, descriptor) {
        Operation::Hit(cost) if found.bound.envoy().charge => Operation::Charge(cost),
        operation => operation,
    };
    Ok(Question::Of(found, operation))
}

/// The operation of a descriptor. A cost of 0 in the descriptor is a peek; a cost of 0 in the
/// request means 1.
fn operation(request: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> Operation {
    let cost = descriptor.hits_addend.unwrap_or(u64::from(request.hits_addend.max(1)));
    match (cost, descriptor.is_negative_hits) {
        (0, _) => Operation::Peek(1),
        (cost, true) => Operation::Refund(cost),
        (cost, false) => Operation::Hit(cost),
    }
}

/// The limit that a descriptor brings.
fn overridden(
    service: &Service,
    domain: &str,
    descriptor: &RateLimitDescriptor,
    given: RateLimitOverride,
) -> Result<Match, RequestError> {
    let unit = Unit::try_from(given.unit).unwrap_or(Unit::Unknown);
    let Some(period) = unit.period() else {
        let text = format!("limit.unit {}: must be a unit from second to year", given.unit);
        return Err(RequestError::invalid(text));
    };
    let limit = Limit::new(given.requests_per_unit.into(), period)
        .algorithm(Algorithm::FixedWindow)
        .charge_denied()
        .name(OVERRIDE)
        .build();
    let policy = limit.and_then(|limit| Policy::new([limit]));
    let policy = policy.map_err(|error| RequestError::invalid(format!("limit: {error}")))?;
    let key = DescriptorKey::new(&descriptor.entries);
    Ok(Match { bound: service.given(domain, &policy)?, key })
}

/// Drops the rules that another descriptor of the request replaces.
fn replace(questions: &mut [Question]) {
    let replaced = |question: &Question| match question {
        Question::Of(found, _) => found.bound.envoy().replaces.clone(),
        Question::Free | Question::Blocked => Vec::new(),
    };
    let replaced: Vec<String> = questions.iter().flat_map(replaced).collect();
    if replaced.is_empty() {
        return;
    }
    for question in questions {
        if matches!(question, Question::Of(found, _) if replaced.iter().any(|name| **name == *found.bound.name()))
        {
            *question = Question::Free;
        }
    }
}
