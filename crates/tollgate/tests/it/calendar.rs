//! Calendar windows: their text, the rules of zones, and callers that disagree.

#[path = "calendar/disputes.rs"]
mod disputes;
#[path = "calendar/zones.rs"]
mod zones;

use std::time::Duration;

use tollgate::{Algorithm, CalendarUnit, Limit, LimitError, Timestamp, Weekday};

const HOUR: u64 = 3_600_000_000;

fn parse(text: &str) -> Limit {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn text_is_printed_in_one_form() {
    for (text, printed) in [
        ("10000/month calendar tz=Europe/Berlin", "10000/month calendar tz=Europe/Berlin"),
        ("5 per MO calendar anchor=31 TZ=utc", "5/month calendar anchor=31"),
        ("5/y calendar", "5/year calendar"),
        ("5 per 1 quarter calendar at=00:00", "5/quarter calendar"),
        ("5/w calendar start=SUN", "5/week calendar start=sunday"),
        ("5/week start=monday calendar", "5/week calendar"),
        (
            "1_000/day calendar at=06:30 tz=asia/TOKYO charge-denied name=a",
            "1000/day calendar tz=Asia/Tokyo at=06:30 name=a charge-denied",
        ),
    ] {
        let limit = parse(text);
        assert_eq!(limit.algorithm(), Algorithm::CalendarWindow, "{text}");
        assert_eq!(limit.to_string(), printed);
        assert_eq!(parse(printed), limit);
        let json = serde_json::to_string(printed).unwrap();
        assert_eq!(json, format!("{printed:?}"));
    }
}

#[test]
fn code_and_text_build_the_same_limit() {
    let month = Limit::per_calendar(9, CalendarUnit::Month).zone("europe/berlin").anchor(15);
    assert_eq!(
        month.at(6, 5).build(),
        Ok(parse("9/month calendar tz=Europe/Berlin anchor=15 at=06:05"))
    );
    let week = Limit::per_calendar(9, CalendarUnit::Week).week_start(Weekday::Saturday);
    assert_eq!(week.build(), Ok(parse("9/week calendar start=saturday")));
    let day = Limit::per_day(9).algorithm(Algorithm::CalendarWindow);
    assert_eq!(day.build(), Ok(parse("9/day calendar")));
    for text in
        ["9/month calendar tz=Asia/Tokyo anchor=3 at=01:00 name=x", "2/week calendar start=sunday"]
    {
        let limit = parse(text);
        assert_eq!(tollgate::LimitBuilder::from(limit.clone()).build(), Ok(limit));
    }
}

#[test]
fn bad_input_is_refused_with_value_and_rule() {
    let only_calendar = "only calendar limits have it; add calendar";
    for (text, at, why) in [
        ("5/day calendar anchor=2", 22, "anchor 2: only months have an anchor".to_owned()),
        ("5/month calendar anchor=0", 24, "anchor 0: must be from 1 to 31".into()),
        ("5/month calendar anchor=32", 24, "anchor 32: must be from 1 to 31".into()),
        ("5/month calendar start=sunday", 23, "start: only weeks have a first day".into()),
        (
            "5/day calendar start=someday",
            21,
            r#"found "someday", expected a day from monday to sunday"#.into(),
        ),
        ("5/day tz=Europe/Berlin", 9, format!("tz: {only_calendar}")),
        ("5/week start=sunday", 13, format!("start: {only_calendar}")),
        ("5/day at=06:00", 9, format!("at: {only_calendar}")),
        ("5/day anchor=3", 13, format!("anchor: {only_calendar}")),
        (
            "5/day calendar at=25:00",
            18,
            r#"found "25:00", expected a time from 00:00 to 23:59"#.into(),
        ),
        (
            "5/day calendar at=6:00",
            18,
            r#"found "6:00", expected a time from 00:00 to 23:59"#.into(),
        ),
        (
            "5/day calendar tz=Europe/Berln",
            18,
            r#"time zone "Europe/Berln": not known; did you mean Europe/Berlin?"#.into(),
        ),
        (
            "5/hour calendar",
            2,
            r#"found "hour", expected a single day, week, month, quarter or year of the calendar"#
                .into(),
        ),
        (
            "5/15days calendar",
            2,
            r#"found "15days", expected a single day, week, month, quarter or year of the calendar"#
                .into(),
        ),
        (
            "5/day calendar burst=9",
            21,
            "burst 9: calendar has no burst; only token-bucket, leaky-bucket and gcra have one"
                .into(),
        ),
        (
            "5/day calendar gcra",
            15,
            r#"found "gcra", expected each option at most once, and at most one algorithm"#.into(),
        ),
        (
            "5/month",
            2,
            r#"found "month": a month has no fixed length: say 30 days"#.into(),
        ),
    ] {
        let error = text.parse::<Limit>().expect_err(text);
        assert_eq!(error.to_string(), format!("at {at}: {why}"), "{text}");
    }
    let broken: [(LimitError, &str); 3] = [
        (
            Limit::per_hour(5).algorithm(Algorithm::CalendarWindow).build().unwrap_err(),
            "period of 3600000000000 ns: a calendar counts by one day, week, month, quarter or year",
        ),
        (
            Limit::per_calendar(5, CalendarUnit::Day).at(24, 0).build().unwrap_err(),
            "at 24:00: must be from 00:00 to 23:59",
        ),
        (
            Limit::per_calendar(5, CalendarUnit::Month)
                .algorithm(Algorithm::Gcra)
                .build()
                .unwrap_err(),
            "a month, a quarter and a year have no fixed length: add calendar, or say days",
        ),
    ];
    for (error, why) in broken {
        assert_eq!(error.to_string(), why);
    }
}

/// Zone, start, anchor and time of the day of a named limit may change; its unit may not.
#[test]
fn the_identity_of_a_named_limit_is_its_name_and_unit() {
    let identity = |text| parse(text).identity();
    let month = identity("5/month calendar name=a");
    assert_eq!(identity("9/month calendar tz=Asia/Tokyo anchor=7 at=03:00 name=a"), month);
    assert_ne!(identity("5/quarter calendar name=a"), month);
    assert_ne!(identity("5/31 days fixed-window name=a"), month);
    let unnamed = identity("5/month calendar");
    for other in
        ["5/month calendar tz=Asia/Tokyo", "5/month calendar anchor=2", "5/month calendar at=00:01"]
    {
        assert_ne!(identity(other), unnamed, "{other}");
    }
}

#[test]
fn windows_reach_to_both_ends_of_time() {
    for text in ["5/day calendar tz=Asia/Tokyo", "5/year calendar tz=America/New_York"] {
        let calendar = parse(text).calendar().unwrap();
        assert_eq!(calendar.window(Timestamp::EPOCH).0, Timestamp::EPOCH);
        let (start, end) = calendar.window(Timestamp::MAX);
        assert!(start < end && end == Timestamp::MAX, "{start} {end}");
        assert_eq!(calendar.window(Timestamp::from_micros(start.as_micros() - 1)).1, start);
    }
}

/// All threads compute the same windows while they replace the cached one.
#[test]
fn threads_at_different_times_never_see_a_wrong_window() {
    let limit = parse("5/day calendar tz=Asia/Tokyo name=threads");
    let machine = tollgate::algorithm::AnyMachine::new(&limit);
    std::thread::scope(|scope| {
        let check = |thread: u64| {
            for turn in 0..2_000 {
                let now = Timestamp::from_micros((10_000 + (turn * 7 + thread) % 5) * 24 * HOUR);
                let mut state = None;
                let hit = machine.apply(&mut state, now, tollgate::algorithm::Op::Hit(1));
                // Midnight in Tokyo is 15 hours after midnight in Greenwich.
                assert_eq!(hit.reset_after(), Duration::from_secs(15 * 3_600));
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || check(thread))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
