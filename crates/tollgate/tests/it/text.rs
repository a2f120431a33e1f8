//! Tests of the text form: which texts are accepted, which are refused and at which position, and
//! that printed limits are read back.

use std::collections::HashSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate::text::span;
use tollgate::{Algorithm, Limit, LimitError, Policy};

#[cfg(feature = "serde")]
mod as_serde;

const MAX: u64 = 1_000_000_000_000;
const YEAR: u64 = 365 * 24 * 3600 * 1_000_000;

/// Generates valid limits. Small numbers and whole units are as frequent as arbitrary ones.
pub(crate) fn any_limit() -> impl Strategy<Value = Limit> {
    let quota = prop_oneof![1_u64..=20, 1..=MAX];
    let unit = select(vec![1_000_u64, 1_000_000, 60_000_000, 3_600_000_000, 604_800_000_000]);
    let period = prop_oneof![(1_u64..=20, unit).prop_map(|(n, unit)| n * unit), 1_000..=100 * YEAR];
    let burst = prop_oneof![Just(None), any::<u64>().prop_map(Some)];
    let algorithm = select(Algorithm::PERIODIC.to_vec());
    (algorithm, quota, period, burst, any::<bool>(), any_name()).prop_map(
        |(algorithm, quota, period, burst, charge_denied, name)| {
            let mut limit = Limit::new(quota, Duration::from_micros(period)).algorithm(algorithm);
            if let Some(random) = burst.filter(|_| algorithm.has_burst()) {
                let full = u128::from(quota) * u128::from(1_000 * YEAR) / u128::from(period);
                let most = u64::try_from(full).unwrap_or(MAX).min(MAX);
                limit = limit.burst(1 + random % most);
            }
            if charge_denied && algorithm.can_charge_denied() {
                limit = limit.charge_denied();
            }
            if let Some(name) = name {
                limit = limit.name(name);
            }
            limit.build().expect("the strategy generates valid limits")
        },
    )
}

fn any_name() -> impl Strategy<Value = Option<String>> {
    let bare: Vec<char> = "abcXYZ019._:/@-".chars().collect();
    let awkward: Vec<char> =
        "\"\\ =;,|'{}un\n\t\r\0\u{7f}\u{85}\u{200e}\u{2028}é€".chars().collect();
    let any = prop_oneof![select(bare.clone()), select(awkward), any::<char>()];
    let text = |letters: Vec<char>| Some(letters.into_iter().collect());
    // Fifty characters have at most 200 bytes, the largest length of a name.
    prop_oneof![
        Just(None),
        vec(select(bare), 1..=50).prop_map(text),
        vec(any, 1..=50).prop_map(text)
    ]
}

/// Generates valid policies.
pub(crate) fn any_policy() -> impl Strategy<Value = Policy> {
    vec(any_limit(), 1..=8).prop_map(|mut limits| {
        let mut seen = HashSet::new();
        limits.retain(|limit| seen.insert(limit.identity()));
        Policy::new(limits).expect("the strategy generates valid limits")
    })
}

/// Generates texts that are nearly valid: pieces of the grammar in any order.
fn near_text() -> impl Strategy<Value = String> {
    let pieces = "1 10 0 _ / per second ms months gcra fixed_window burst = name \" \\ \\u{ } 41 ; , | \
                  charge-denied é 99999999999999999999 1/s 5/minute";
    let pieces = pieces.split(' ').chain([" "]).collect::<Vec<_>>();
    vec(select(pieces), 0..12).prop_map(|pieces| pieces.concat())
}

fn any_text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..40).prop_map(String::from_iter)
}

/// Generates valid texts in which one character is replaced.
fn damaged_text() -> impl Strategy<Value = String> {
    let parts = (any_policy(), any::<prop::sample::Index>(), any::<char>());
    parts.prop_map(|(policy, index, other)| {
        let mut letters: Vec<char> = policy.to_string().chars().collect();
        let at = index.index(letters.len());
        letters[at] = other;
        letters.into_iter().collect()
    })
}

#[test]
fn texts_are_read_and_printed_in_the_usual_form() {
    let table = [
        ("10/second", "10/second"),
        ("10 per 2 hours", "10 per 2 hours"),
        ("10per2hours", "10 per 2 hours"),
        ("10/2hours", "10 per 2 hours"),
        ("10perhour", "10/hour"),
        ("\t10 \n/ 1  SECOND ", "10/second"),
        ("1_000_000/day", "1000000/day"),
        ("007/s", "7/second"),
        ("1/1000us", "1/millisecond"),
        ("1/1001 microseconds", "1 per 1001 microseconds"),
        ("1/90 s", "1 per 90 seconds"),
        ("1/24 h", "1/day"),
        ("1/14 days", "1 per 2 weeks"),
        ("1/5214 weeks", "1 per 5214 weeks"),
        ("10/s gcra burst=10", "10/second"),
        ("10/s burst = 2_0", "10/second burst=20"),
        ("100/minute Token_Bucket burst=20", "100/minute token-bucket burst=20"),
        ("5/m charge_denied name=a fixed-window", "5/minute fixed-window name=a charge-denied"),
        ("5/m name=a.b_c:d/e@f-9", "5/minute name=a.b_c:d/e@f-9"),
        ("5/m name=\"login\"", "5/minute name=login"),
        ("5/m name=\"log in\"", "5/minute name=\"log in\""),
        (r#"5/m name="a\"b\\c\n\t\r\u{0}\u{e9}""#, r#"5/minute name="a\"b\\c\n\t\r\u{0}é""#),
        ("5/m name=\"a\nb\u{202e}\"", r#"5/minute name="a\nb\u{202e}""#),
        ("1000000000000/second", "1000000000000/second"),
    ];
    for (text, printed) in table {
        let limit: Limit = text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(limit.to_string(), printed, "{text:?}");
        assert_eq!(printed.parse(), Ok(limit), "{text:?}");
    }
}

#[test]
fn units_have_short_long_and_plural_forms() {
    let table = [
        ("us microsecond microseconds", 1),
        ("ms msec msecs millisecond milliseconds", 1_000),
        ("s sec secs second seconds SECOND", 1_000_000),
        ("m min mins minute minutes", 60_000_000),
        ("h hr hrs hour hours Hr", 3_600_000_000),
        ("d day days", 86_400_000_000),
        ("w week weeks", 604_800_000_000),
    ];
    for (word, micros) in table.iter().flat_map(|(words, n)| words.split(' ').map(move |w| (w, n)))
    {
        let limit: Limit = format!("1 Per 3000 {word}").parse().unwrap();
        assert_eq!(limit.period(), Duration::from_micros(3000 * micros), "{word}");
    }
}

#[test]
fn a_concurrency_limit_is_read_and_printed() {
    for (text, printed) in [
        ("20 concurrent", "20 concurrent"),
        ("20Concurrent hold = 1 minute", "20 concurrent hold=60s"),
        ("1_000 concurrent name=jobs hold=1500ms", "1000 concurrent hold=1500ms name=jobs"),
        ("1 concurrent hold=24h", "1 concurrent hold=86400s"),
    ] {
        let limit: Limit = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(limit.to_string(), printed);
        assert_eq!(printed.parse(), Ok(limit.clone()));
        assert_eq!(tollgate::LimitBuilder::from(limit.clone()).build(), Ok(limit));
    }
    let policy: Policy = "20 concurrent; 5/second".parse().unwrap();
    assert_eq!(policy.to_string(), "20 concurrent; 5/second");
    let identity = |text: &str| text.parse::<Limit>().unwrap().identity();
    let (short, long) = ("9 concurrent hold=5s name=a", "20 concurrent name=a");
    assert_eq!(identity(short), identity(long));
    for (text, at, why) in [
        ("0 concurrent", 0, "0 concurrent: must be from 1 to 100000"),
        ("100001 concurrent", 0, "100001 concurrent: must be from 1 to 100000"),
        (
            "5 concurrent hold=999ms",
            18,
            "hold of 999000000 ns: must be from 1 second to 24 hours, in whole microseconds",
        ),
        ("5/second hold=5s", 14, "hold of 5000000000 ns: only a concurrency limit has one"),
    ] {
        assert_refused(text.parse::<Limit>(), at, why);
    }
    for text in ["5/second concurrent", "5 concurrent burst=9", "5 concurrent charge-denied"] {
        assert!(text.parse::<Limit>().is_err(), "{text}");
    }
}

#[test]
fn every_algorithm_is_read_by_its_name() {
    for algorithm in Algorithm::PERIODIC {
        let word = algorithm.as_str();
        assert_eq!(word.parse(), Ok(algorithm));
        for word in [word.to_owned(), word.to_uppercase(), word.replace('-', "_")] {
            let limit: Limit = format!("3/hour {word}").parse().unwrap();
            assert_eq!(limit.algorithm(), algorithm);
        }
        let listed = "none".parse::<Algorithm>().unwrap_err().to_string();
        assert!(listed.contains(word), "{listed} lacks {word}");
    }
}

fn assert_refused<T: std::fmt::Debug>(read: Result<T, LimitError>, at: usize, why: &str) {
    let error = read.expect_err(why);
    assert_eq!(error.to_string(), format!("at {at}: {why}"));
    assert_eq!(error.position(), Some(at));
}

const UNIT: &str = "a unit of time: millisecond, second, minute, hour, day or week";
const QUOTA: &str = "a quota in digits, as in 10/second";
const OPTION: &str = r#"an option: an algorithm, burst=NUMBER, hold=TIME, name=WORD, name="TEXT" or charge-denied; of a calendar limit also tz=ZONE, start=DAY, anchor=NUMBER or at=HOUR:MINUTE"#;
const ESCAPE: &str = r#"one of \" \\ \n \r \t \u{HEX}"#;
const ONE: &str = "the end of the text, because only one limit is allowed here, not a policy";
const NAME: &str = "a name: letters, digits and . _ : / @ -, or anything in double quotes";

#[test]
fn an_error_states_the_position_the_text_found_and_the_text_expected() {
    let table = [
        ("", 0, "the end of the text", QUOTA),
        ("  ", 2, "the end of the text", QUOTA),
        ("ten/second", 0, r#""ten""#, QUOTA),
        ("-5/second", 0, r#""-5""#, QUOTA),
        ("_5/second", 0, r#""_5""#, QUOTA),
        ("5_/second", 0, r#""5_""#, "a number in which each _ is between two digits"),
        ("1__0/second", 0, r#""1__0""#, "a number in which each _ is between two digits"),
        ("10", 2, "the end of the text", "/, per, concurrent or total"),
        ("10 second", 3, r#""second""#, "/, per, concurrent or total"),
        ("1.5/second", 1, r#"".""#, "/, per, concurrent or total"),
        ("10é/second", 2, r#""é""#, "/, per, concurrent or total"),
        ("10/", 3, "the end of the text", UNIT),
        ("10/fortnight", 3, r#""fortnight""#, UNIT),
        ("10/ 2 \u{433}\u{43e}\u{434}", 6, "\"\u{433}\u{43e}\u{434}\"", UNIT),
        ("10/per second", 3, r#""per""#, UNIT),
        ("10/2", 4, "the end of the text", UNIT),
        ("10/-1 second", 3, r#""-1""#, UNIT),
        ("10/seconds2", 3, r#""seconds2""#, UNIT),
        ("10/second quick", 10, r#""quick""#, OPTION),
        ("10/second !", 10, r#""!""#, OPTION),
        ("10/second 5", 10, r#""5""#, OPTION),
        ("10/second burst", 15, "the end of the text", "= followed by a value"),
        ("10/second burst 5", 16, r#""5""#, "= followed by a value"),
        ("10/second burst=", 16, "the end of the text", "a burst in digits"),
        ("10/second burst=-1", 16, r#""-1""#, "a burst in digits"),
        ("10/second burst=1e3", 17, r#""e3""#, OPTION),
        (
            "10/second burst=1 burst=1",
            18,
            r#""burst""#,
            "each option at most once, and at most one algorithm",
        ),
        (
            "10/second gcra gcra",
            15,
            r#""gcra""#,
            "each option at most once, and at most one algorithm",
        ),
        ("10/second name=", 15, "the end of the text", NAME),
        ("10/second name=é", 15, r#""é""#, NAME),
        ("10/second name=grün", 17, r#""ün""#, NAME),
        ("10/second name=a=b", 16, r#""=""#, NAME),
        (r#"10/second name="abc"#, 19, "the end of the text", "\" after the name"),
        (r#"10/second name="a\qc""#, 17, r#""\\q""#, ESCAPE),
        (r#"10/second name="\u{d800}""#, 16, r#""\\u{d800}""#, ESCAPE),
        (r#"10/second name="\u41""#, 16, r#""\\u41""#, ESCAPE),
        ("10/second; 5/minute", 9, r#"";""#, ONE),
    ];
    for (text, at, found, expected) in table {
        let why = format!("found {found}, expected {expected}");
        assert_refused(text.parse::<Limit>(), at, &why);
    }
}

#[test]
fn an_error_states_the_position_of_the_invalid_value() {
    let period = "must be from 1 millisecond to 100 years";
    let no_burst = "has no burst; only token-bucket, leaky-bucket and gcra have one";
    let too_slow = "takes longer than 1000 years to refill at this quota and period";
    let no_charge =
        "only fixed-window, fixed-window-per-key, elastic-window and calendar count denied hits";
    let table = [
        ("0/second", 0, "quota 0: must be from 1 to 1000000000000".to_owned()),
        (" 1_000_000_000_001/s", 1, "quota 1000000000001: must be from 1 to 1000000000000".into()),
        ("10/0 seconds", 3, format!("period of 0 ns: {period}")),
        ("10/999us", 3, format!("period of 999000 ns: {period}")),
        ("10 per 5215 weeks", 7, format!("period of 3154032000000000000 ns: {period}")),
        ("10/s burst=0", 11, "burst 0: must be from 1 to 1000000000000".into()),
        ("10/s burst=3 moving-window", 11, format!("burst 3: moving-window {no_burst}")),
        ("1/week burst=1_000_000", 13, format!("burst 1000000: {too_slow}")),
        ("10/s charge-denied", 5, format!("charge-denied with gcra: {no_charge}")),
        (r#"10/s name="""#, 10, "name of 0 bytes: must be 1 to 200 bytes long".into()),
    ];
    for (text, at, why) in table {
        assert_refused(text.parse::<Limit>(), at, &why);
    }
}

#[test]
fn months_and_years_are_refused_with_advice() {
    for word in ["month", "Months", "mo"] {
        let why = format!("found {word:?}: a month has no fixed length: say 30 days");
        assert_refused(format!("10 per 2 {word}").parse::<Limit>(), 9, &why);
    }
    for word in ["year", "YEARS", "y", "yr", "yrs"] {
        let why = format!("found {word:?}: a year has no fixed length: say 365 days");
        assert_refused(format!("10/{word}").parse::<Limit>(), 3, &why);
    }
}

#[test]
fn a_budget_is_a_total_with_a_name() {
    let limit: Limit = "5_000 TOTAL name=credit".parse().unwrap();
    assert_eq!(limit, Limit::total(5_000).name("credit").build().unwrap());
    assert_eq!(limit.to_string(), "5000 total name=credit");
    assert_eq!(tollgate::LimitBuilder::from(limit.clone()).build(), Ok(limit.clone()));
    let raised: Limit = "9000 total name=credit".parse().unwrap();
    assert_eq!(raised.identity(), limit.identity());
    let no_name = "total: a budget needs a name, so that its count stays when the quota changes";
    assert_refused("5000 total".parse::<Limit>(), 5, no_name);
    let period =
        "period of 86400000000000 ns: a budget has no period; write \"5000 total name=credit\"";
    assert_refused("5000/day budget name=a".parse::<Limit>(), 5, period);
    let zone = "tz: only calendar limits have it; add calendar";
    assert_refused("5000 total name=a tz=Asia/Tokyo".parse::<Limit>(), 21, zone);
    assert!("5000/day total name=a".parse::<Limit>().is_err());
}

#[test]
fn too_large_numbers_are_errors_and_never_wrap() {
    let number = "18446744073709551616";
    let why = format!("found {number:?}, expected a number of at most 18446744073709551615");
    for (before, after) in [("", "/second"), ("10/", "second"), ("10/second burst=", "")] {
        let text = format!("{before}{number}{after}");
        assert_refused(text.parse::<Limit>(), before.len(), &why);
    }
    // This period is slightly more than 2^64 microseconds, and would wrap around to a valid one.
    let why = r#"found "30500569 weeks", expected a period from 1 millisecond to 100 years"#;
    assert_refused("10/30500569 weeks".parse::<Limit>(), 3, why);
    let long = "9".repeat(1000);
    let message = long.parse::<Limit>().unwrap_err().to_string();
    assert!(message.starts_with(r#"at 0: found "999"#) && message.len() < 200, "{message}");
}

#[test]
fn a_duration_is_read_like_the_period_of_a_limit() {
    for text in ["7ms", "2s", "5 m", "1h", " 3 Days ", "week", "1_500us"] {
        let limit: Limit = format!("1 per {text}").parse().unwrap();
        assert_eq!(span(text), Ok(limit.period()), "{text:?}");
    }
    // Some durations are not valid periods of a limit.
    assert_eq!(span("0s"), Ok(Duration::ZERO));
    assert_eq!(span("1us"), Ok(Duration::from_micros(1)));
    assert_eq!(span("10000 weeks"), Ok(Duration::from_secs(6_048_000_000)));
    let unit = |found| format!("found {found}, expected {UNIT}");
    let table = [
        ("", 0, unit("the end of the text")),
        ("5", 1, unit("the end of the text")),
        ("5é", 1, unit(r#""é""#)),
        ("-5s", 0, unit(r#""-5s""#)),
        ("1.5s", 1, unit(r#"".""#)),
        ("1s burst=5", 3, r#"found "burst", expected the end of the text"#.to_owned()),
        ("2 years", 2, r#"found "years": a year has no fixed length: say 365 days"#.to_owned()),
        (
            "30500569 weeks",
            0,
            r#"found "30500569 weeks", expected a span of less than 2^64 microseconds"#.to_owned(),
        ),
    ];
    for (text, at, why) in table {
        assert_refused(span(text), at, &why);
    }
}

#[test]
fn policies_are_read_with_any_separator() {
    for text in ["5/second; 100/minute", "5/s,100/m", "5/s|100/m", "\n5/s\n;\n100/m\n"] {
        let policy: Policy = text.parse().unwrap();
        assert_eq!(policy.to_string(), "5/second; 100/minute", "{text:?}");
    }
    let named: Policy = r#"5/s name="a;b", 5/s name=b"#.parse().unwrap();
    assert_eq!(named.to_string(), r#"5/second name="a;b"; 5/second name=b"#);
}

#[test]
fn an_error_in_a_policy_states_the_position_of_the_limit() {
    let quota = |found: &str| format!("found {found}, expected {QUOTA}");
    let twice = |limit| format!("limit {limit:?} twice in one policy: each may appear once");
    let nine = (1..=9).map(|n| format!("{n}/s")).collect::<Vec<_>>().join(";");
    let table = [
        ("", 0, quota("the end of the text")),
        (";5/s", 0, quota(r#"";""#)),
        ("5/s;", 4, quota("the end of the text")),
        ("5/s;;6/s", 4, quota(r#"";""#)),
        ("5/s, |6/s", 5, quota(r#""|""#)),
        ("5/s; 6/fortnight", 7, format!(r#"found "fortnight", expected {UNIT}"#)),
        ("5/s; 6/s burst=0", 15, "burst 0: must be from 1 to 1000000000000".to_owned()),
        ("5/s; 9/m; 5/second", 10, twice("5/second")),
        ("5/s name=a; 6/s name=a", 12, twice("6/second name=a")),
        (&nine, 32, "policy of 9 limits: must have 1 to 8".to_owned()),
    ];
    for (text, at, why) in table {
        assert_refused(text.parse::<Policy>(), at, &why);
    }
}

#[test]
fn policies_have_one_to_eight_different_limits() {
    let message = |error: LimitError| error.to_string();
    let none = Policy::new(Vec::<Limit>::new()).map_err(message);
    assert_eq!(none, Err("policy of 0 limits: must have 1 to 8".to_owned()));
    let nine = Policy::new((1..=9).map(Limit::per_second)).map_err(message);
    assert_eq!(nine, Err("policy of 9 limits: must have 1 to 8".to_owned()));
    let broken = Policy::new([Limit::per_second(1), Limit::per_second(0)]).map_err(message);
    assert_eq!(broken, Err("quota 0: must be from 1 to 1000000000000".to_owned()));
    assert!(Policy::new((1..=8).map(Limit::per_second)).is_ok());
}

proptest! {
    #[test]
    fn printed_limits_are_read_back(limit in any_limit()) {
        let text = limit.to_string();
        prop_assert!(!text.chars().any(char::is_control));
        prop_assert_eq!(text.parse(), Ok(limit));
    }

    #[test]
    fn printed_policies_are_read_back(policy in any_policy()) {
        prop_assert_eq!(policy.to_string().parse(), Ok(policy));
    }

    #[test]
    fn any_text_is_read_back_or_refused_with_a_position(text in prop_oneof![near_text(), any_text(), damaged_text()]) {
        match text.parse::<Policy>() {
            Ok(policy) => prop_assert_eq!(policy.to_string().parse(), Ok(policy)),
            Err(error) => prop_assert!(error.position().is_some_and(|at| text.is_char_boundary(at))),
        }
        if let Ok(limit) = text.parse::<Limit>() {
            prop_assert_eq!(text.parse(), Policy::try_from(limit));
        }
    }
}

#[test]
fn stores_accept_limits_and_policies_as_texts_and_values_owned_and_borrowed() {
    let store = tollgate::Memory::new();
    let (text, limit) = (String::from("5/second"), Limit::per_second(5).build().unwrap());
    for limiter in [
        store.limiter("5/second"),
        store.limiter(format!("{}/second", 5)),
        store.limiter(&text),
        store.limiter(&limit),
        store.limiter(limit.clone()),
        store.limiter(Limit::per_second(5)),
    ] {
        assert_eq!(limiter.unwrap().limits()[0], limit);
    }
    let (texts, policy) =
        (String::from("5/second; 9/day"), "5/second; 9/day".parse::<Policy>().unwrap());
    for limiter in [
        store.limiter(&texts),
        store.limiter(texts.clone()),
        store.limiter(&policy),
        store.limiter(["5/second", "9/day"]),
        store.limiter([limit.clone(), "9/day".parse().unwrap()]),
        store.limiter(vec![Limit::per_second(5), Limit::per_day(9)]),
        store.limiter(vec![String::from("5/second"), String::from("9/day")]),
    ] {
        assert_eq!(limiter.unwrap().policy(), &policy);
    }
    let none: [&str; 0] = [];
    assert!(store.limiter(none).is_err());
}
