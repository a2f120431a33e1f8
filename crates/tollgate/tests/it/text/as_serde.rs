//! Tests of limits and policies with serde: the meaning of maps, and that written limits are read
//! back.

use proptest::prelude::*;
use tollgate::{Algorithm, Limit, Policy};

use super::any_policy;

#[test]
fn a_map_and_its_text_are_the_same_limit() {
    let table = [
        (r#"{"quota": 10, "period": 1}"#, "10/second"),
        (r#"{"period": "2 hours", "quota": 10}"#, "10 per 2 hours"),
        (r#"{"quota": 10, "period": " hour ", "burst": 20}"#, "10/hour burst=20"),
        (r#"{"quota": 9, "period": "1500ms", "burst": null}"#, "9 per 1500 milliseconds"),
        (
            r#"{"quota": 5, "period": 60, "algorithm": "fixed_window", "name": "log in",
                "charge_denied": true}"#,
            r#"5/minute fixed-window name="log in" charge-denied"#,
        ),
    ];
    for (json, text) in table {
        let limit: Limit = serde_json::from_str(json).unwrap();
        assert_eq!(limit.to_string(), text);
        assert_eq!(serde_json::from_str::<Policy>(json).unwrap(), Policy::try_from(limit).unwrap());
    }
    let list = r#"["5/second", {"quota": 100, "period": "minute"}]"#;
    let policy: Policy = serde_json::from_str(list).unwrap();
    assert_eq!(policy.to_string(), "5/second; 100/minute");
    assert_eq!(serde_json::to_string(&Algorithm::ElasticWindow).unwrap(), r#""elastic-window""#);
}

#[test]
fn serde_errors_keep_the_message_of_the_limit() {
    let table = [
        (r#""10/fortnight""#, r#"at 3: found "fortnight", expected a unit of time"#),
        (r#"{"quota": 0, "period": 1}"#, "quota 0: must be from 1 to 1000000000000"),
        (r#"{"quota": 1, "period": "2 months"}"#, "period at 2: found \"months\": a month has"),
        (r#"{"quota": 1, "period": "1 s x"}"#, r#"period at 4: found "x", expected the end"#),
        (r#"{"quota": 1, "period": -1}"#, "period of -1 seconds: must not be negative"),
        (r#"{"quota": 1, "period": 1.5}"#, "expected a period: text such as"),
        (r#"{"quota": 1, "period": 18446744073709551615}"#, "must be from 1 millisecond"),
        (r#"{"quota": -1, "period": 1}"#, "invalid value: integer `-1`"),
        (r#"{"quota": 1, "period": 1, "algorithm": "gcr"}"#, r#"at 0: found "gcr", expected an"#),
        (r#"{"quota": 1, "period": 1, "bursts": 1}"#, "unknown field `bursts`"),
        (r#"{"quota": 1, "quota": 1, "period": 1}"#, "duplicate field `quota`"),
        (r#"{"period": 1}"#, "missing field `quota`"),
        ("7", "expected a limit: text such as"),
    ];
    for (json, why) in table {
        let error = serde_json::from_str::<Limit>(json).expect_err(json).to_string();
        assert!(error.contains(why), "{json}: {error}");
        serde_json::from_str::<Policy>(json).expect_err(json);
    }
    for (json, why) in [
        ("[]", "policy of 0 limits: must have 1 to 8"),
        (r#"["5/s", "5/second"]"#, r#"limit "5/second" twice in one policy"#),
        (r#"["5/s; 6/s"]"#, r#"at 3: found ";", expected the end of the text"#),
        ("true", "expected a policy: text such as"),
    ] {
        let error = serde_json::from_str::<Policy>(json).expect_err(json).to_string();
        assert!(error.contains(why), "{json}: {error}");
    }
}

proptest! {
    #[test]
    fn policies_written_as_json_are_read_back(policy in any_policy()) {
        let json = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Policy>(&json).unwrap(), &policy);
        let list = serde_json::to_string(policy.limits()).unwrap();
        prop_assert_eq!(serde_json::from_str::<Policy>(&list).unwrap(), policy);
    }
}
