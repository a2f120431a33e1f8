//! The headers, read by an independent parser.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use sfv::{BareItem, List, ListEntry, Parser};
use tollgate::{Algorithm, Decision, Limit, ManualClock, Memory, Outcome, Timestamp};
use tollgate_http::{Draft, Headers, Reset};

type Member = (String, Vec<(String, i64)>);

/// A structured list of strings with whole numbers as parameters.
fn list(text: &str) -> Vec<Member> {
    let list: List = Parser::new(text).parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let member = |entry: &ListEntry| {
        let ListEntry::Item(item) = entry else { panic!("{text}: an inner list") };
        let BareItem::String(name) = &item.bare_item else { panic!("{text}: no string") };
        let parameters = item.params.iter().map(|(key, value)| {
            let BareItem::Integer(value) = value else { panic!("{text}: no whole number") };
            (key.as_str().to_owned(), i64::from(*value))
        });
        (name.as_str().to_owned(), parameters.collect())
    };
    list.iter().map(member).collect()
}

fn all() -> Headers {
    Headers::default().three_fields()
}

fn write(headers: &Headers, limits: &[Limit], outcomes: &Decision) -> Vec<(&'static str, String)> {
    let mut written = Vec::new();
    headers.write(limits, outcomes, |name, value| written.push((name, value)));
    written
}

fn value<'a>(written: &'a [(&'static str, String)], name: &str) -> Option<&'a str> {
    let mut values = written.iter().filter(|(n, _)| *n == name).map(|(_, value)| value.as_str());
    let first = values.next();
    assert_eq!(values.next(), None, "{name} twice");
    first
}

fn number(written: &[(&'static str, String)], name: &str) -> Option<u64> {
    value(written, name).map(|value| value.parse().unwrap())
}

fn seconds_up(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

/// Any valid limit, small ones more often.
fn limit() -> impl Strategy<Value = Limit> {
    let quota = prop_oneof![1..10_u64, 1..=tollgate::MAX_QUOTA];
    let period = prop_oneof![1_000..10_000_000_u64, 1_000..=3_155_760_000_000_000_u64];
    let burst = prop::option::of(prop_oneof![1..10_u64, 1..=tollgate::MAX_QUOTA]);
    let name = prop::option::of(prop_oneof!["[ -~]{1,20}", ".{1,12}", "\\PC{1,20}"]);
    let parts = (prop::sample::select(Algorithm::PERIODIC.to_vec()), quota, period, burst, name);
    parts.prop_filter_map("not valid", |(algorithm, quota, micros, burst, name)| {
        let mut builder = Limit::new(quota, Duration::from_micros(micros)).algorithm(algorithm);
        if let (Some(burst), true) = (burst, algorithm.has_burst()) {
            builder = builder.burst(burst);
        }
        if let Some(name) = name {
            builder = builder.name(name);
        }
        builder.build().ok()
    })
}

/// An act on a key: the time before it, its cost, and whether it is charged without checking the
/// limit.
fn act() -> impl Strategy<Value = (u64, u64, bool)> {
    let wait = prop_oneof![Just(0), 0..5_000_000_u64, 0..1_000_000_000_000_u64];
    let cost = prop_oneof![0..4_u64, 1..2_000_000_000_000_u64, Just(u64::MAX)];
    (wait, cost, prop::bool::weighted(0.2))
}

fn run(limit: &Limit, acts: &[(u64, u64, bool)], check: impl Fn(&Decision)) {
    let clock = ManualClock::new(Timestamp::from_micros(1_735_689_600_400_000));
    let limiter = Memory::builder().clock(clock.clone()).build().limiter(limit.clone()).unwrap();
    for (wait, cost, charge) in acts {
        clock.advance(Duration::from_micros(*wait));
        check(&if *charge { limiter.charge("key", *cost) } else { limiter.hit_n("key", *cost) });
    }
}

proptest! {
    #[test]
    fn every_decision_is_written_in_structured_fields_that_add_up(limit in limit(), acts in vec(act(), 1..6)) {
        let limits = [limit.clone()];
        run(&limit, &acts, |decision| {
            let written = write(&all(), &limits, decision);
            let policies = list(value(&written, "ratelimit-policy").unwrap());
            let told = list(value(&written, "ratelimit").unwrap());
            assert_eq!((policies.len(), told.len()), (1, 1));
            let (policy, told) = (&policies[0], &told[0]);
            assert_eq!(policy.0, told.0, "one name");
            if let Some(name) = limit.name().filter(|name| name.bytes().all(|byte| (b' '..=b'~').contains(&byte))) {
                assert_eq!(policy.0, name);
            }
            let [(q, most), (w, window)] = &policy.1[..] else { panic!("{policy:?}") };
            let [(r, left), (t, until)] = &told.1[..] else { panic!("{told:?}") };
            assert_eq!([q, w, r, t], ["q", "w", "r", "t"]);
            assert!(*most >= 1 && *window >= 1);
            assert!(0 <= *left && left <= most, "{left} of {most}");
            assert!(*until >= i64::from(!decision.allowed()), "{until}");
            assert_eq!(number(&written, "ratelimit-limit"), u64::try_from(*most).ok());
            assert_eq!(number(&written, "ratelimit-remaining"), u64::try_from(*left).ok());
            assert_eq!(number(&written, "ratelimit-reset"), u64::try_from(*until).ok());
        });
    }

    #[test]
    fn retry_after_is_the_wait_rounded_up_and_at_least_one(limit in limit(), acts in vec(act(), 1..6)) {
        let limits = [limit.clone()];
        run(&limit, &acts, |decision| {
            let written = write(&all(), &limits, decision);
            let expected = decision.retry_after().filter(|_| !decision.allowed());
            let told = number(&written, "retry-after");
            assert_eq!(told, expected.map(|wait| seconds_up(wait).max(1)));
            if let Some(told) = told {
                assert!(told >= number(&written, "ratelimit-reset").unwrap(), "not earlier than t");
            }
        });
    }

    #[test]
    fn reset_as_unix_time_is_never_before_that_as_a_span(limit in limit(), acts in vec(act(), 1..4)) {
        let limits = [limit.clone()];
        run(&limit, &acts, |decision| {
            let [span, time] = [Reset::Delta, Reset::UnixTime]
                .map(|reset| number(&write(&Headers::none().x_rate_limit(reset), &limits, decision), "x-ratelimit-reset").unwrap());
            let now = decision.now().as_micros();
            assert_eq!(time, now.div_ceil(1_000_000) + span);
            let wait = match (decision.allowed(), decision.remaining()) {
                (true, 0) => decision.fields().retry_at.map_or(Duration::ZERO, |at| at.since(decision.now())),
                (true, _) => decision.reset_after(),
                (false, _) => decision.retry_after().unwrap_or_default(),
            };
            assert!(u128::from(time) * 1_000_000 >= u128::from(now) + wait.as_micros());
        });
    }

    #[test]
    fn a_client_that_waits_for_the_reset_gets_the_first_unit(
        algorithm in prop::sample::select(Algorithm::PERIODIC.to_vec()),
        quota in 1..8_u64, micros in 1_000_000..100_000_000_u64, pause in prop_oneof![Just(0), 0..20_000_000_u64],
    ) {
        let clock = ManualClock::new(Timestamp::from_micros(1_735_689_600_400_000));
        let limit = Limit::new(quota, Duration::from_micros(micros)).algorithm(algorithm);
        let limiter = Memory::builder().clock(clock.clone()).build().limiter(limit).unwrap();
        let mut last = limiter.hit("key");
        for _ in 1..quota {
            clock.advance(Duration::from_micros(pause / 1_000));
            last = limiter.hit("key");
        }
        prop_assume!(last.remaining() == 0);
        let written = write(&all(), limiter.limits(), &last);
        let wait = Duration::from_secs(number(&written, "ratelimit-reset").unwrap());
        let at = |time| limiter.at(time).peek("key").allowed();
        prop_assert!(at(last.now() + wait), "refused after {wait:?}");
        prop_assert!(!at(last.now() + (wait - Duration::from_secs(1))), "admitted long before {wait:?}");
    }

    #[test]
    fn jitter_only_adds_and_stays_below_its_bound(seconds in 0..100_u64) {
        let limiter = Memory::new().limiter("1/hour fixed-window-per-key").unwrap();
        let _ = limiter.hit("key");
        let denied = limiter.hit("key");
        let headers = Headers::default().jitter(Duration::from_secs(seconds));
        let told = number(&write(&headers, limiter.limits(), &denied), "retry-after").unwrap();
        let wait = seconds_up(denied.retry_after().unwrap());
        prop_assert!((wait..=wait + seconds).contains(&told));
    }

    #[test]
    fn of_several_limits_all_are_policies_and_the_headline_is_described(
        limits in vec(limit(), 1..5), acts in vec(act(), 1..6),
    ) {
        let policy = tollgate::Policy::new(limits);
        prop_assume!(policy.is_ok());
        let clock = ManualClock::new(Timestamp::from_micros(1_735_689_600_400_000));
        let limiter = Memory::builder().clock(clock.clone()).build().limiter(policy.unwrap()).unwrap();
        for (wait, cost, _) in acts {
            clock.advance(Duration::from_micros(wait));
            let decision = limiter.hit_n("key", cost);
            let limits = limiter.policy().limits();
            let written = write(&all(), limits, &decision);
            let policies = list(value(&written, "ratelimit-policy").unwrap());
            prop_assert_eq!(policies.len(), limits.len());
            let told = list(value(&written, "ratelimit").unwrap());
            prop_assert_eq!(told.len(), 1);
            let outcomes = decision.outcomes();
            let shown = &told[0].0;
            if decision.allowed() {
                let least = outcomes.iter().map(Outcome::remaining).min();
                prop_assert_eq!(number(&written, "ratelimit-remaining"), least);
                let mut binding = policies.iter().zip(outcomes).filter(|(_, one)| Some(one.remaining()) == least);
                prop_assert!(binding.any(|(policy, _)| policy.0 == *shown));
                if least == Some(0) {
                    // A client that waits for this time finds a unit in all of them.
                    let empty = outcomes.iter().filter(|one| one.remaining() == 0);
                    let longest = empty.map(|one| seconds_up(one.fields().retry_at.unwrap().since(one.now()))).max();
                    prop_assert_eq!(number(&written, "ratelimit-reset"), longest);
                }
                prop_assert_eq!(number(&written, "retry-after"), None);
            } else {
                // A client that waits for this time waits long enough for all of them.
                let waits: Option<Vec<_>> = outcomes.iter().filter(|one| !one.allowed()).map(Outcome::retry_after).collect();
                let longest = waits.map(|waits| waits.into_iter().map(seconds_up).max().unwrap().max(1));
                prop_assert_eq!(shown, &policies[decision.headline_index()].0);
                prop_assert_eq!(number(&written, "retry-after"), longest);
            }
        }
    }
}

#[test]
fn a_window_is_written_in_whole_seconds_rounded_up() {
    for (text, says) in [
        ("5/minute name=a", r#""a";q=5;w=60"#),
        ("5/minute burst=10 name=a", r#""a";q=10;w=120"#),
        ("5/1500ms fixed-window name=a", r#""a";q=5;w=2"#),
        ("1/1ms name=a", r#""a";q=1;w=1"#),
    ] {
        let limit: Limit = text.parse().unwrap();
        let decision = Memory::new().limiter(limit.clone()).unwrap().hit("key");
        assert_eq!(
            value(&write(&Headers::default(), &[limit], &decision), "ratelimit-policy"),
            Some(says)
        );
    }
}

#[test]
fn a_cost_that_never_fits_has_no_retry_after() {
    let limiter = Memory::new().limiter("5/hour").unwrap();
    let decision = limiter.hit_n("key", 6);
    let written = write(&all(), limiter.limits(), &decision);
    assert_eq!(value(&written, "retry-after"), None);
    assert_eq!(number(&written, "ratelimit-remaining"), Some(5));
}

#[test]
fn only_configured_headers_are_written() {
    let limiter = Memory::new().limiter("1/hour").unwrap();
    let _ = limiter.hit("key");
    let names = |headers: &Headers| {
        let written = write(headers, limiter.limits(), &limiter.hit("key"));
        written.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(&Headers::none()), [""; 0]);
    assert_eq!(names(&Headers::default()), ["ratelimit-policy", "ratelimit", "retry-after"]);
    assert_eq!(names(&Headers::default().retry_after(false)), ["ratelimit-policy", "ratelimit"]);
    assert_eq!(names(&Headers::none().rate_limit(Draft::Ten)), ["ratelimit-policy", "ratelimit"]);
    let three = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
    assert_eq!(names(&Headers::none().three_fields()), three);
}
