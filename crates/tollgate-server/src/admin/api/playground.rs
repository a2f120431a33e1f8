//! `/api/v1/playground`: a limit in words, and what each algorithm admits from a burst.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate::{Algorithm, Limit, ManualClock, Memory, Policy, Timestamp};

use super::rules;
use crate::http::{Problem, query};

/// The points of a chart in one period.
const STEPS: u64 = 60;

/// The length of a chart in periods.
const PERIODS: u64 = 3;

pub(super) fn answer(text: &str) -> Result<Value, Problem> {
    let mut limit = None;
    for pair in query::pairs(text) {
        let (name, value) = pair?;
        if name != "limit" {
            return Err(Problem::wrong(format!("parameter {name:?}: unknown; expected limit")));
        }
        limit = Some(value);
    }
    let text = limit.ok_or_else(|| Problem::wrong("limit: missing; expected ?limit=100/minute"))?;
    let policy: Policy =
        text.parse().map_err(|error| Problem::wrong(format!("limit {text:?}: {error}")))?;
    let limits: Vec<_> = policy
        .limits()
        .iter()
        .map(|limit| {
            let mut words = rules::limit(limit);
            words["chart"] = chart(limit);
            words
        })
        .collect();
    Ok(json!({ "limits": limits }))
}

/// The units that a client has got after each step, by algorithm. The client takes whatever it can
/// get at each step. It begins in the last quarter of a window of the clock, which shows what fixed
/// windows admit around an edge.
fn chart(limit: &Limit) -> Value {
    let period = u64::try_from(limit.period().as_micros()).unwrap_or(u64::MAX);
    let algorithms: Vec<_> = Algorithm::PERIODIC
        .into_iter()
        .filter_map(|algorithm| {
            let is_own = algorithm == limit.algorithm();
            let of_algorithm =
                if is_own { limit.clone() } else { with_algorithm(limit, algorithm)? };
            Some(json!({
                "algorithm": algorithm.to_string(),
                "own": is_own,
                "admitted": admitted(&of_algorithm, period)?,
            }))
        })
        .collect();
    json!({
        "step_us": period / STEPS,
        "steps_per_period": STEPS,
        "periods": PERIODS,
        "algorithms": algorithms,
    })
}

/// The same quota and period with another algorithm, and the same burst where it has one.
fn with_algorithm(limit: &Limit, algorithm: Algorithm) -> Option<Limit> {
    let plain = Limit::new(limit.quota(), limit.period()).algorithm(algorithm);
    let same = if algorithm.has_burst() { plain.burst(limit.burst()) } else { plain };
    same.build().ok()
}

fn admitted(limit: &Limit, period: u64) -> Option<Vec<u64>> {
    // The begin of the third window of the clock, less a quarter.
    let begin = period.saturating_mul(2) - period / 4;
    let at = |step: u64| Timestamp::from_micros(begin.saturating_add(step * (period / STEPS)));
    let clock = Arc::new(ManualClock::new(at(0)));
    let store = Memory::builder().clock(Arc::clone(&clock)).build();
    let limiter = store.limiter(limit.clone()).ok()?;
    let mut total = 0_u64;
    let steps = (0..=STEPS * PERIODS).map(|step| {
        clock.set(at(step));
        total = total.saturating_add(limiter.take("", limit.burst()).charged());
        total
    });
    Some(steps.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, algorithm: &str) -> Vec<u64> {
        let answer = answer(&format!("limit={text}")).unwrap();
        let all = answer["limits"][0]["chart"]["algorithms"].as_array().unwrap();
        let found = all.iter().find(|chart| chart["algorithm"] == algorithm).unwrap();
        found["admitted"].as_array().unwrap().iter().map(|units| units.as_u64().unwrap()).collect()
    }

    #[test]
    fn fixed_windows_admit_twice_the_quota_around_an_edge_and_moving_windows_do_not() {
        let (quarter, period) = (STEPS as usize / 4, STEPS as usize);
        let fixed = of("100/minute", "fixed-window");
        assert_eq!(
            [fixed[0], fixed[quarter - 1], fixed[quarter], fixed[period]],
            [100, 100, 200, 200]
        );
        let moving = of("100/minute", "moving-window");
        assert_eq!([moving[0], moving[period - 1], moving[period]], [100, 100, 200]);
        let bucket = of("100/minute+burst%3D20", "gcra");
        assert_eq!([bucket[0], bucket[period]], [20, 120]);
        let elastic = of("100/minute", "elastic-window");
        assert_eq!(elastic.last(), Some(&100));
    }

    #[test]
    fn every_algorithm_has_a_line_and_the_chosen_one_is_marked() {
        for text in
            ["1/day", "100/minute+sliding-window", "5/second+burst%3D9", "1000000000000/week"]
        {
            let answer = answer(&format!("limit={text}")).unwrap();
            let all = answer["limits"][0]["chart"]["algorithms"].as_array().unwrap();
            assert_eq!(all.len(), Algorithm::PERIODIC.len(), "{text}");
            assert_eq!(all.iter().filter(|chart| chart["own"] == true).count(), 1, "{text}");
            for chart in all {
                let admitted = chart["admitted"].as_array().unwrap();
                assert!(admitted.windows(2).all(|pair| pair[0].as_u64() <= pair[1].as_u64()));
            }
        }
    }

    #[test]
    fn a_limit_that_makes_no_sense_is_explained() {
        for (query, expected) in
            [("", "limit: missing"), ("limit=5/fortnight", "fortnight"), ("x=1", "x")]
        {
            let problem = answer(query).unwrap_err();
            assert!(format!("{problem:?}").contains(expected), "{problem:?}");
        }
    }
}
