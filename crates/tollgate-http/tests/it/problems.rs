//! The body of a refusal, read by an independent parser.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use tollgate::{Limit, Memory, Policy};
use tollgate_http::problem;

proptest! {
    #[test]
    fn a_problem_is_json_that_names_the_policies_that_deny(
        names in vec(prop_oneof!["[ -~]{1,20}", "\\PC{1,20}", "[\\x00-\\x1f\"\\\\/]{1,9}"], 1..4), cost in 1..4_u64,
    ) {
        // The quotas grow, so that some limits deny and some do not.
        let limits = names.iter().zip(1..).map(|(name, quota)| Limit::per_hour(quota).name(name.as_str()).build().ok());
        let limits: Option<Vec<_>> = limits.collect();
        prop_assume!(limits.is_some());
        let policy = Policy::new(limits.unwrap());
        prop_assume!(policy.is_ok());
        let limiter = Memory::new().limiter(policy.unwrap()).unwrap();
        let decision = limiter.hit_n("key", cost);
        let body: Value = serde_json::from_str(&problem(429, limiter.policy().limits(), decision.outcomes())).unwrap();
        prop_assert_eq!(&body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
        prop_assert_eq!(&body["status"], 429);
        prop_assert!(body["title"].is_string() && body["detail"].is_string());
        let refusing: Vec<&str> = names.iter().zip(1..).filter(|(_, quota)| cost > *quota).map(|(name, _)| name.as_str()).collect();
        prop_assert_eq!(&body["violated-policies"], &Value::from(refusing));
    }
}

#[test]
fn a_problem_states_the_wait() {
    let limiter = Memory::new().limiter("1/minute fixed-window-per-key").unwrap();
    let _ = limiter.hit("key");
    let detail = |cost| {
        let body = problem(429, limiter.limits(), limiter.hit_n("key", cost).outcomes());
        serde_json::from_str::<Value>(&body).unwrap()["detail"].as_str().unwrap().to_owned()
    };
    assert_eq!(detail(1), "come back in 60 seconds");
    assert_eq!(detail(2), "this request costs more than the quota ever allows");
}

#[test]
fn a_limit_without_a_name_is_named_by_its_text() {
    let limiter = Memory::new().limiter("1/minute burst=2").unwrap();
    let body = problem(403, limiter.limits(), limiter.hit_n("key", 3).outcomes());
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["violated-policies"][0], "1/minute burst=2");
    assert_eq!(body["status"], 403);
}
