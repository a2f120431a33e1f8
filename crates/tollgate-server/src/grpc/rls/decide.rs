//! Decides on the descriptors of a request.

use super::DescriptorLimit;
use crate::service::{
    DescriptorKey, Match, Operation, RequestError, RequestErrorKind, RuleDecision, RuleHit,
    Service, Verdict,
};

type Hit<'a> = RuleHit<'a, &'a DescriptorKey>;

/// The decision on each descriptor, in order; `None` where nothing limits.
pub(super) type Decisions<'a> = [Option<RuleDecision<'a>>];

/// Decides on all descriptors.
///
/// Peeks come first: if one of them denies, the whole request is denied and its hits are only
/// peeked, except those of limits that charge denied hits. The hits are one step, all or nothing.
/// Refunds and charges are corrections, so they are made whatever the other limits decide. Quotas
/// come last, independent of each other: one that allows is enough.
pub(super) async fn all<'a>(
    service: &Service,
    limits: &'a [DescriptorLimit],
) -> Result<Vec<Option<RuleDecision<'a>>>, RequestError> {
    if let [DescriptorLimit::Limited(found, operation)] = limits {
        let decision = service.execute(&found.rule, &found.key, *operation).await?;
        return Ok(vec![Some(decision)]);
    }
    let mut decisions = vec![None; limits.len()];
    let (mut hits, mut quotas) = (Vec::new(), Vec::new());
    for (index, limit) in limits.iter().enumerate() {
        match limit {
            DescriptorLimit::Unlimited => {}
            DescriptorLimit::Blocked => {
                decisions[index] = Some(RuleDecision::without_limits(Verdict::Blocked));
            }
            DescriptorLimit::Limited(found, Operation::Hit(cost)) if limit.is_quota() => {
                quotas.push((index, found, *cost));
            }
            DescriptorLimit::Limited(found, Operation::Hit(cost)) => {
                hits.push((index, found, *cost));
            }
            DescriptorLimit::Limited(found, operation) => {
                let decision = service.execute(&found.rule, &found.key, *operation).await?;
                decisions[index] = Some(decision);
            }
        }
    }
    let open = binding_pass(limits, &decisions);
    for (index, decision) in hit(service, &hits, open).await? {
        decisions[index] = Some(decision);
    }
    let open = binding_pass(limits, &decisions);
    for (index, found, cost) in &quotas {
        let operation = if open { Operation::Hit(*cost) } else { Operation::Peek(*cost) };
        let decision = service.execute(&found.rule, &found.key, operation).await?;
        decisions[*index] = Some(decision);
    }
    if open && !passes(limits, &decisions) {
        for (index, found, cost) in hits {
            let key = &found.key;
            if let Some(charged) = &decisions[index]
                && charged.verdict == Verdict::Allowed
                && !found.rule.charges_denied(key)
            {
                service.give_back(&found.rule, key, cost, charged).await?;
            }
        }
    }
    Ok(decisions)
}

/// Whether the request passes: no limit denies it, and of its quotas, if there are any, one allows
/// it.
pub(super) fn passes(limits: &[DescriptorLimit], decisions: &Decisions<'_>) -> bool {
    let quotas = limits.iter().zip(decisions).filter(|(limit, _)| limit.is_quota());
    let mut quotas = quotas.filter_map(|(_, decision)| decision.as_ref()).peekable();
    binding_pass(limits, decisions) && (quotas.peek().is_none() || quotas.any(RuleDecision::passes))
}

fn binding_pass(limits: &[DescriptorLimit], decisions: &Decisions<'_>) -> bool {
    let binding = limits.iter().zip(decisions).filter(|(limit, _)| !limit.is_quota());
    binding.filter_map(|(_, decision)| decision.as_ref()).all(RuleDecision::passes)
}

/// Hits, unless the request is denied already. Hits on one counter are one hit.
async fn hit<'a>(
    service: &Service,
    hits: &[(usize, &'a Match, u64)],
    open: bool,
) -> Result<Vec<(usize, RuleDecision<'a>)>, RequestError> {
    let mut unique: Vec<(&Match, Hit<'a>)> = Vec::with_capacity(hits.len());
    let mut places = Vec::with_capacity(hits.len());
    for (index, found, cost) in hits {
        let place = unique.iter().position(|(other, _)| DescriptorLimit::same(found, other));
        let place = place.unwrap_or_else(|| {
            let (rule, key) = (&*found.rule, &found.key);
            unique.push((found, Hit { rule, key, cost: 0 }));
            unique.len() - 1
        });
        unique[place].1.cost = unique[place].1.cost.saturating_add(*cost);
        places.push((*index, place));
    }
    let hits: Vec<Hit<'a>> = unique.into_iter().map(|(_, hit)| hit).collect();
    let decisions = match open {
        true => together(service, &hits).await?,
        false => service.deny_all(&hits).await?,
    };
    Ok(places.into_iter().map(|(index, place)| (index, decisions[place].clone())).collect())
}

async fn together<'a>(
    service: &Service,
    hits: &[Hit<'a>],
) -> Result<Vec<RuleDecision<'a>>, RequestError> {
    match hits {
        [] => Ok(Vec::new()),
        [one] => Ok(vec![service.execute(one.rule, &one.key, Operation::Hit(one.cost)).await?]),
        several => match service.hit_all(several).await {
            // The keys are in different places, of a cluster for instance.
            Err(error) if error.kind() == RequestErrorKind::Invalid => {
                in_turn(service, several).await
            }
            decisions => decisions,
        },
    }
}

/// Hits one key after the other. When one is denied, those before are refunded and those after are
/// only peeked, except limits that charge denied hits. Other requests may see the charge in
/// between: that may deny too much for a moment, but never admits too much.
async fn in_turn<'a>(
    service: &Service,
    hits: &[Hit<'a>],
) -> Result<Vec<RuleDecision<'a>>, RequestError> {
    let mut decisions: Vec<RuleDecision<'a>> = Vec::with_capacity(hits.len());
    for (index, hit) in hits.iter().enumerate() {
        let decision = service.execute(hit.rule, &hit.key, Operation::Hit(hit.cost)).await;
        if decision.as_ref().is_ok_and(RuleDecision::passes) {
            decisions.extend(decision);
            continue;
        }
        for (hit, charged) in hits.iter().zip(&decisions) {
            if charged.verdict == Verdict::Allowed && !hit.charges_denied() {
                service.give_back(hit.rule, hit.key, hit.cost, charged).await?;
            }
        }
        decisions.push(decision?);
        decisions.extend(service.deny_all(&hits[index + 1..]).await?);
        break;
    }
    Ok(decisions)
}
