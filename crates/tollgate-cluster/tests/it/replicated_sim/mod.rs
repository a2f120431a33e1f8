//! Replicas in a simulated world: virtual time, seeded faults, and the published bound compared
//! with what was admitted.
//!
//! One seed is one world: nodes, a limit, a load, and a network that delays, loses, duplicates,
//! reorders and splits. Nodes crash and come back under a new name, and clocks differ.
//! `TOLLGATE_SIM_SEED=n` runs exactly that world, `TOLLGATE_SIM_SEEDS=n` runs that many.

mod check;
mod draw;
mod plant;
mod world;

use check::Outcome;
use draw::{Draw, Faults};
use plant::Plant;
use world::World;

const SEED: &str = "TOLLGATE_SIM_SEED";
const SEEDS: &str = "TOLLGATE_SIM_SEEDS";

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value}: must be a number")))
}

fn run(seed: u64, faults: Faults, plant: Plant) -> Result<Outcome, String> {
    let draw = Draw::of(seed, faults);
    let ledger = World::new(&draw, plant).run();
    check::all(&draw, &ledger).map_err(|broken| format!("{broken}\n{draw:#?}"))
}

/// Runs worlds until one fails. Returns the outcomes.
fn worlds(test: &str, usual: u64, faults: Faults) -> Vec<Outcome> {
    let seeds = match number(SEED) {
        Some(seed) => seed..seed + 1,
        None => 0..number(SEEDS).unwrap_or(usual),
    };
    let mut outcomes = Vec::new();
    for seed in seeds {
        match run(seed, faults, Plant::Nothing) {
            Ok(outcome) => outcomes.push(outcome),
            Err(broken) => panic!(
                "{broken}\nseed {seed}; again by: {SEED}={seed} cargo test -p tollgate-cluster --test it replicated_sim::{test}"
            ),
        }
    }
    outcomes
}

/// The share of the worlds, in percent, for which a condition holds.
fn percent(outcomes: &[Outcome], is_so: impl Fn(&Outcome) -> bool) -> usize {
    outcomes.iter().filter(|outcome| is_so(outcome)).count() * 100 / outcomes.len().max(1)
}

#[test]
fn without_faults_the_excess_is_at_most_that_of_flush_and_delay() {
    let test = "without_faults_the_excess_is_at_most_that_of_flush_and_delay";
    let outcomes = worlds(test, 1000, Faults::None);
    if outcomes.len() > 100 {
        // The worlds are demanding: limits are reached, and exceeded a little.
        assert!(percent(&outcomes, |outcome| outcome.denied > 0) > 50);
        assert!(percent(&outcomes, |outcome| outcome.over > 0) > 5);
    }
}

#[test]
fn with_faults_no_more_is_admitted_than_the_bound_says() {
    let test = "with_faults_no_more_is_admitted_than_the_bound_says";
    let outcomes = worlds(test, 2000, Faults::All);
    if outcomes.len() > 100 {
        assert!(percent(&outcomes, |outcome| outcome.denied > 0) > 50);
        assert!(percent(&outcomes, |outcome| outcome.over > 0) > 10);
        assert!(percent(&outcomes, |outcome| outcome.agreed_on > 0) > 20);
        assert!(percent(&outcomes, |outcome| outcome.offered_in_split > 0) > 2);
    }
}

/// How many of some worlds detect a planted fault.
fn caught(plant: Plant) -> usize {
    (0..200).filter(|seed| run(*seed, Faults::All, plant).is_err()).count()
}

#[test]
fn counts_without_their_slot_are_detected() {
    assert!(caught(Plant::NoSlot) > 20);
}

#[test]
fn increments_instead_of_cumulative_counts_are_detected() {
    assert!(caught(Plant::Increments) > 20);
}
