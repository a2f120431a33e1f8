//! Finds the limit of each descriptor.

use tollgate::{Algorithm, Limit, Policy};

use super::super::options::Options;
use super::super::proto::{Entry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, Unit};
use crate::service::{self, DescriptorKey, Match, Operation, RequestError, Service};

/// The name of limits that come with requests. With a name, the count stays when the quota changes
/// from one request to the next.
const OVERRIDE: &str = "override";

/// The limit of a descriptor, and the operation on it.
#[derive(Debug)]
pub(super) enum DescriptorLimit {
    /// No rule matches.
    Unlimited,
    /// The descriptor brings a limit of zero.
    Blocked,
    /// A rule, or a limit that the descriptor brings.
    Limited(Match, Operation),
}

impl DescriptorLimit {
    /// Whether it denies only together with all other quotas of the request.
    pub(super) fn is_quota(&self) -> bool {
        matches!(self, DescriptorLimit::Limited(found, _) if found.rule.envoy().quota)
    }

    /// Whether two matches count on one counter.
    pub(super) fn same(one: &Match, other: &Match) -> bool {
        std::sync::Arc::ptr_eq(&one.rule, &other.rule) && one.key == other.key
    }
}

impl service::DescriptorEntry for Entry {
    fn key(&self) -> &str {
        &self.key
    }

    fn value(&self) -> &[u8] {
        &self.value
    }
}

/// The limit of each descriptor, in order.
pub(super) fn limits(
    service: &Service,
    options: &Options,
    request: &RateLimitRequest,
) -> Result<Vec<DescriptorLimit>, RequestError> {
    check(options, request)?;
    let limit = |descriptor| limit(service, request, descriptor);
    let mut limits = request.descriptors.iter().map(limit).collect::<Result<Vec<_>, _>>()?;
    replace(&mut limits);
    Ok(limits)
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

fn limit(
    service: &Service,
    request: &RateLimitRequest,
    descriptor: &RateLimitDescriptor,
) -> Result<DescriptorLimit, RequestError> {
    let found = match descriptor.limit {
        Some(RateLimitOverride { requests_per_unit: 0, .. }) => {
            return Ok(DescriptorLimit::Blocked);
        }
        Some(given) => Some(overridden(service, &request.domain, descriptor, given)?),
        None => service.matching(&request.domain, &descriptor.entries),
    };
    let Some(found) = found else { return Ok(DescriptorLimit::Unlimited) };
    let operation = match operation(request, descriptor) {
        Operation::Hit(cost) if found.rule.envoy().charge => Operation::Charge(cost),
        operation => operation,
    };
    Ok(DescriptorLimit::Limited(found, operation))
}

/// A descriptor's own cost may be 0, which is a peek; a request's 0 means 1.
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
    Ok(Match { rule: service.inline_limit(domain, &policy, None)?, key })
}

/// Drops rules that another descriptor of the request replaces.
fn replace(limits: &mut [DescriptorLimit]) {
    let replaced = |limit: &DescriptorLimit| match limit {
        DescriptorLimit::Limited(found, _) => found.rule.envoy().replaces.clone(),
        DescriptorLimit::Unlimited | DescriptorLimit::Blocked => Vec::new(),
    };
    let replaced: Vec<String> = limits.iter().flat_map(replaced).collect();
    if replaced.is_empty() {
        return;
    }
    for limit in limits {
        if matches!(limit, DescriptorLimit::Limited(found, _) if replaced.iter().any(|name| **name == *found.rule.name()))
        {
            *limit = DescriptorLimit::Unlimited;
        }
    }
}
