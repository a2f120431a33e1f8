//! Rules that hold for every simulation.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Policy};
use tollgate_simulate::{Attempt, Group, Simulation};

fn groups() -> impl Strategy<Value = Vec<Group>> {
    let load = prop_oneof![
        Just("constant 5/second"),
        Just("poisson 5/second"),
        Just("bursts of 9 every 3s"),
        Just("daily 2/second peak 6/second"),
    ];
    let retry = prop_oneof![
        Just("none"),
        Just("immediate"),
        Just("retry-after"),
        Just("retry-after exact"),
        Just("backoff"),
        Just("backoff base=1s max=4s jitter=none"),
    ];
    let group = (load, retry, 1_u32..4).prop_map(|(load, retry, clients)| Group {
        load: load.parse().unwrap(),
        clients,
        retry: retry.parse().unwrap(),
        cost: 1,
    });
    prop::collection::vec(group, 1..3)
}

fn limit() -> impl Strategy<Value = Policy> {
    let algorithms = prop::sample::select(Algorithm::PERIODIC.to_vec());
    (algorithms, 1_u64..8, 1_u64..6).prop_map(|(algorithm, quota, seconds)| {
        format!("{quota} per {seconds} seconds {algorithm}").parse().unwrap()
    })
}

/// The most that a limit admits of one key in any span of length `d`: the table of the contract.
fn bound(limit: &tollgate::Limit, d: u64) -> u64 {
    let (n, p) = (limit.quota(), limit.period().as_micros() as u64);
    match limit.algorithm() {
        Algorithm::FixedWindow | Algorithm::FixedWindowPerKey => n * (d.div_ceil(p) + 1),
        // The bound holds until the key was silent for a whole period.
        Algorithm::ElasticWindow | Algorithm::MovingWindow => n * d.div_ceil(p),
        Algorithm::SlidingWindow if n == 1 => d.div_ceil(p),
        Algorithm::SlidingWindow => (2 * n - 1) * d.div_ceil(p),
        algorithm if algorithm.has_burst() => limit.burst() + d * n / p,
        // The property tests of `tollgate` hold every algorithm to its bound.
        _ => u64::MAX,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_limit_admits_more_than_its_bound(groups in groups(), limit in limit(), seed: u64, shared_key: bool) {
        let span = Duration::from_secs(30);
        let simulation = Simulation { groups, span, seed, shared_key, ..Simulation::default() };
        let mut admitted: HashMap<u32, Vec<u64>> = HashMap::new();
        let outcome = simulation.run(&limit, |attempt| {
            let key = if shared_key { 0 } else { attempt.client };
            if attempt.allowed {
                admitted.entry(key).or_default().push(attempt.at);
            }
        }).unwrap();
        let one = &limit.limits()[0];
        for times in admitted.values() {
            for (index, from) in times.iter().enumerate() {
                for (further, to) in times[index..].iter().enumerate() {
                    let most = bound(one, to - from + 1);
                    prop_assert!((further as u64) < most, "{limit}: {} in {} us", further + 1, to - from);
                }
            }
        }
        let sum: usize = admitted.values().map(Vec::len).sum();
        prop_assert_eq!(outcome.admitted, sum as u64);
        prop_assert_eq!(outcome.attempts, outcome.admitted + outcome.denied);
        prop_assert_eq!(outcome.requests, outcome.admitted + outcome.given_up + outcome.waiting);
        prop_assert_eq!(outcome.per_client.iter().sum::<u64>(), outcome.admitted);
    }

    #[test]
    fn the_same_seed_gives_the_same_result(groups in groups(), limit in limit(), seed: u64) {
        let simulation = Simulation { groups, span: Duration::from_secs(20), seed, ..Simulation::default() };
        let run = |simulation: &Simulation| {
            let mut attempts: Vec<Attempt> = Vec::new();
            let outcome = simulation.run(&limit, |attempt| attempts.push(attempt)).unwrap();
            (attempts, outcome.fairness(), outcome.waits)
        };
        let first = run(&simulation);
        prop_assert_eq!(&first, &run(&simulation));
        let other = Simulation { seed: seed ^ 1, ..simulation };
        prop_assert_ne!(first.0, run(&other).0);
    }

    #[test]
    fn every_limit_gets_the_same_requests(groups in groups(), seed: u64) {
        let simulation = Simulation { groups, span: Duration::from_secs(20), seed, ..Simulation::default() };
        let requests = |limit: &str| simulation.run(&limit.parse().unwrap(), |_| {}).unwrap().requests;
        prop_assert_eq!(requests("1/minute"), requests("1000/second"));
    }
}

#[test]
fn clients_that_obey_retry_after_exactly_are_denied_once_per_request() {
    let group = Group {
        load: "bursts of 10 every 1 minute".parse().unwrap(),
        clients: 1,
        retry: "retry-after exact".parse().unwrap(),
        cost: 1,
    };
    let simulation = Simulation { groups: vec![group], attempts: 100, ..Simulation::default() };
    let outcome = simulation.run(&"1/second burst=9".parse().unwrap(), |_| {}).unwrap();
    // Nine of ten pass at one instant, and the tenth waits for exactly one second.
    assert_eq!((outcome.requests, outcome.admitted, outcome.denied), (100, 100, 10));
    assert_eq!(outcome.waits.longest(), 1_000_000);
}

#[test]
fn a_busy_client_takes_the_share_of_others_where_they_have_one_key() {
    let group =
        |load: &str, clients| Group { load: load.parse().unwrap(), clients, ..Group::default() };
    let groups = vec![group("constant 1/second", 9), group("constant 100/second", 1)];
    let apart = Simulation { groups, ..Simulation::default() };
    let shared = Simulation { shared_key: true, ..apart.clone() };
    let limit = "2/second".parse().unwrap();
    let fairness = |simulation: &Simulation| simulation.run(&limit, |_| {}).unwrap().fairness();
    let (apart, shared) = (fairness(&apart), fairness(&shared));
    assert!(apart > 900 && shared < 300, "{apart} {shared}");
}
