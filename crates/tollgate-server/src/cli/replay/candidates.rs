//! The limits that a replay tries: those of the command line, or the rules of a file.

use std::error::Error;
use std::path::Path;

use tollgate::{Algorithm, Limit, Policy};
use tollgate_replay::Candidate;

use crate::config::Files;
use crate::rules::{Rule, Treatment};

/// Every policy as it is, or with each algorithm that its limits can have.
pub(super) fn of_limits(policies: &[Policy], algorithms: bool) -> Vec<Candidate> {
    let mut all = Vec::new();
    for policy in policies {
        if algorithms {
            all.extend(
                Algorithm::PERIODIC.into_iter().filter_map(|one| with_algorithm(policy, one)),
            );
        } else {
            all.push(policy.clone());
        }
    }
    all.into_iter().map(Candidate::new).collect()
}

/// The policy with another algorithm, or `None` if its limits cannot have it.
pub(in crate::cli) fn with_algorithm(policy: &Policy, algorithm: Algorithm) -> Option<Policy> {
    let limits = policy.limits().iter().map(|limit| {
        let changed = Limit::new(limit.quota(), limit.period()).algorithm(algorithm);
        // Windows have no burst.
        changed.clone().burst(limit.burst()).build().or_else(|_| changed.build())
    });
    let limits: Vec<Limit> = limits.collect::<Result<_, _>>().ok()?;
    Policy::new(limits).ok()
}

/// The rules of a file that have limits, as candidates.
pub(super) fn of_rules(file: &Path, names: &[String]) -> Result<Vec<Candidate>, Box<dyn Error>> {
    let config = Files::at(file).load()?;
    let wanted = |rule: &Rule| names.is_empty() || names.contains(&rule.name);
    let known = config.rules.limits.values();
    let candidates: Vec<_> = known.filter(|rule| wanted(rule)).filter_map(candidate).collect();
    if candidates.is_empty() {
        return Err(format!("{}: no rule with a limit to replay", file.display()).into());
    }
    Ok(candidates)
}

fn candidate(rule: &Rule) -> Option<Candidate> {
    let Treatment::Limited(usual) = &rule.treatment else { return None };
    let (name, usual, rule) = (rule.name.clone(), usual.clone(), rule.clone());
    Some(Candidate::choosing(name, usual, move |key| {
        let treatment = rule.keys.find(key.as_bytes()).unwrap_or(&rule.treatment);
        let price = rule.costs.find(key.as_bytes()).copied().unwrap_or(rule.cost);
        match treatment {
            Treatment::Limited(policy) => {
                tollgate_replay::Treatment::Limited(policy.clone(), price)
            }
            Treatment::Exempt => tollgate_replay::Treatment::Exempt,
            Treatment::Blocked => tollgate_replay::Treatment::Blocked,
        }
    }))
}
