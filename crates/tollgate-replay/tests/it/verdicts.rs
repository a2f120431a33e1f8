//! The verdicts of a replay are those of the limiter that a program would call.

use proptest::prelude::*;
use tollgate::{Memory, Timestamp};
use tollgate_replay::{Candidate, Role, Treatment};

use crate::logs::{Log, combined_line, json_line, replay, report};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn verdicts_equal_those_of_a_limiter(
        mut hits in proptest::collection::vec((0_u64..20_000_000, 0_u8..4), 1..200),
        limit in prop_oneof![
            Just("3/second"), Just("5 per 2 seconds fixed-window"), Just("4/second moving-window"),
            Just("2/second burst=6; 10 per 5 seconds sliding-window"),
        ],
    ) {
        hits.sort_unstable();
        let lines: Vec<_> = hits.iter().map(|(at, client)| json_line(*at, *client)).collect();
        let log = Log::lines(&lines);
        let report = report(&[&log], &[limit]);

        let limiter = Memory::new().limiter(limit).unwrap();
        let denied = hits.iter().filter(|(at, client)| {
            let now = Timestamp::from_micros(1_767_225_600_000_000 + at);
            !limiter.at(now).hit(u64::from(*client)).allowed()
        });
        let candidate = &report.candidates[0];
        prop_assert_eq!(candidate.early.denied, denied.count() as u64);
        prop_assert_eq!(candidate.early.requests, hits.len() as u64);
        prop_assert!(candidate.spread.is_none(), "the log has decimals");
    }

    #[test]
    fn pieces_of_a_log_are_merged_by_time(
        mut hits in proptest::collection::vec((0_u64..60_000_000, 0_u8..3), 1..100),
        cuts in proptest::collection::vec(0_usize..3, 100),
    ) {
        hits.sort_unstable();
        let lines: Vec<_> = hits.iter().map(|(at, client)| json_line(*at, *client)).collect();
        let piece = |number: usize| -> Vec<_> {
            let mine = lines.iter().zip(&cuts).filter(|(_, cut)| **cut == number);
            mine.map(|(line, _)| line.clone()).collect()
        };
        let pieces = [Log::gzip(&piece(2)), Log::lines(&piece(0)), Log::gzip(&piece(1))];
        // A piece without lines has no format to detect.
        let pieces: Vec<&Log> =
            pieces.iter().zip([2, 0, 1]).filter(|(_, n)| !piece(*n).is_empty()).map(|(p, _)| p).collect();
        let whole = report(&[&Log::lines(&lines)], &["2/second"]);
        let merged = report(&pieces, &["2/second"]);
        prop_assert_eq!(merged.candidates[0].early.denied, whole.candidates[0].early.denied);
        prop_assert_eq!(merged.lines.lines, whole.lines.lines);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_suggested_limit_denies_nobody(
        mut hits in proptest::collection::vec((0_u64..20_000_000, 0_u8..3), 1..200),
        algorithm in prop_oneof![Just(""), Just("fixed-window"), Just("moving-window"), Just("leaky-bucket")],
    ) {
        hits.sort_unstable();
        let lines: Vec<_> = hits.iter().map(|(at, client)| json_line(*at, *client)).collect();
        let log = Log::lines(&lines);
        let mut first = replay(&[&log], &[]);
        first.demand = vec![std::time::Duration::from_secs(2)];
        let demand = first.run(|_| {}).unwrap().demand.remove(0);
        let (_, all) = *demand.suggested.last().unwrap();
        let limit = format!("{all} per 2 seconds {algorithm}");
        let checked = report(&[&log], &[limit.trim()]);
        prop_assert_eq!(checked.candidates[0].early.denied, 0, "{}", limit);
    }
}

#[test]
fn requests_are_replayed_in_the_order_in_which_they_began() {
    // The first line is of a request that took a minute: it began before the second one.
    let lines = [
        combined_line(60, "192.0.2.1", " 0.000"),
        combined_line(61, "192.0.2.2", " 61.000"),
        combined_line(61, "192.0.2.2", " 0.000"),
    ];
    let report = report(&[&Log::lines(&lines)], &["1 per 30 seconds fixed-window-per-key"]);
    assert_eq!(report.candidates[0].early.denied, 0);
    assert_eq!(report.late, 0);
    assert_eq!(report.first, 1_791_633_600_000_000, "12:00:00");
}

#[test]
fn whole_seconds_are_replayed_at_their_start_and_spread_evenly() {
    let lines: Vec<_> = (0..10).map(|_| combined_line(7, "192.0.2.1", "")).collect();
    let report = report(&[&Log::lines(&lines)], &["10/second burst=1"]);
    let candidate = &report.candidates[0];
    assert_eq!(candidate.early.denied, 9);
    assert_eq!(candidate.spread.as_ref().unwrap().denied, 0);
}

#[test]
fn ipv6_clients_share_their_network() {
    let lines = [combined_line(1, "2001:db8::1", ""), combined_line(2, "2001:db8::2:3", "")];
    let report = report(&[&Log::lines(&lines)], &["1/hour"]);
    assert_eq!((report.keys, report.candidates[0].early.denied), (1, 1));
}

#[test]
fn keys_that_are_exempt_or_blocked_are_not_limited() {
    let lines: Vec<_> =
        (0..6).map(|at| combined_line(at, &format!("192.0.2.{}", at % 3), "")).collect();
    let log = Log::lines(&lines);
    let mut replay = replay(&[&log], &[]);
    let usual: tollgate::Policy = "1/hour".parse().unwrap();
    let limits = usual.clone();
    replay.candidates = vec![Candidate::choosing("rule", usual, move |key| match key {
        "192.0.2.0" => Treatment::Exempt,
        "192.0.2.1" => Treatment::Blocked,
        _ => Treatment::Limited(limits.clone(), 1),
    })];
    let report = replay.run(|_| {}).unwrap();
    assert_eq!(report.candidates[0].early.denied, 2 + 1);
}

#[test]
fn costs_and_keys_come_from_fields() {
    let line = |key: &str, cost: u64| {
        format!(r#"{{"time":"2026-10-10T12:00:00.5Z","tenant":"{key}","tokens":{cost}}}"#)
    };
    let log = Log::lines(&[line("a", 60), line("b", 60), line("a", 60), line("a", 40)]);
    let mut replay = replay(&[&log], &["100/hour"]);
    replay.reading.key = tollgate_replay::KeyPart::parse("field:tenant").unwrap();
    replay.reading.cost = Some("tokens".to_owned());
    let report = replay.run(|_| {}).unwrap();
    let denied = &report.candidates[0].early;
    assert_eq!((denied.denied, denied.denied_units, denied.units), (1, 60, 220));
    assert_eq!(denied.worst[0].key, "a");
}

#[test]
fn fields_may_have_names_of_their_own() {
    let log = Log::lines(&[r#"{"when":1791633600.5,"who":"192.0.2.1"}"#]);
    let mut replay = replay(&[&log], &["1/hour"]);
    replay.format = tollgate_replay::Format::named("json");
    replay.reading.fields =
        vec![(Role::Start, "when".to_owned()), (Role::Client, "who".to_owned())];
    let report = replay.run(|_| {}).unwrap();
    assert_eq!((report.keys, report.lines.without_key, report.lines.unreadable), (1, 0, 0));
}

#[test]
fn requests_that_were_limited_can_be_left_out() {
    let line = |flags: &str| {
        format!(
            r#"[2026-10-10T13:55:36.123Z] "GET / HTTP/1.1" 429 {flags} 0 18 1 - "192.0.2.1" "curl" "id" "shop" "-""#
        )
    };
    let log = Log::lines(&[line("-"), line("RL"), line("UF,RL").replace(" 429 ", " 200 ")]);
    let mut replay = replay(&[&log], &["1/hour"]);
    let with = replay.run(|_| {}).unwrap();
    assert_eq!((with.lines.limited, with.candidates[0].early.requests), (3, 3));
    replay.reading.without_limited = true;
    let without = replay.run(|_| {}).unwrap();
    assert_eq!((without.lines.limited, without.candidates[0].early.requests), (3, 0));
}

#[test]
fn whole_seconds_with_durations_are_spread_in_the_order_of_their_lines() {
    // All four lines were written in one second. Two requests began ten seconds before the others.
    let lines = ["0.000", "10.250", "0.000", "10.000"]
        .map(|took| combined_line(20, "192.0.2.1", &format!(" {took}")));
    let log = Log::lines(&lines);
    let mut replay = replay(&[&log], &["4/second burst=1"]);
    let denied = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let into = std::rc::Rc::clone(&denied);
    replay.on_denied = Some(Box::new(move |request| {
        into.borrow_mut().push(request.line);
        Ok(())
    }));
    let report = replay.run(|_| {}).unwrap();
    // Written at 20.00, 20.25, 20.50 and 20.75 s: the requests began at 10.00 (the second line),
    // 10.75, 20.00 and 20.50 s. With all of them at the start of second 20, the third line stands
    // beside the first; the fourth one began 250 ms after the second one.
    assert_eq!(*denied.borrow(), [3]);
    assert_eq!(report.candidates[0].spread.as_ref().unwrap().denied, 0);
    assert_eq!(report.late, 0);
}

#[test]
fn times_without_a_zone_are_read_in_the_given_zone() {
    let line = |client: &str, time: &str| {
        format!(
            "{client}:1 [{time}] in b/s 0/0/0/0/0 200 1 - - ---- 1/1/1/1/0 0/0 \"GET / HTTP/1.1\""
        )
    };
    // Clocks are set back from 03:00 to 02:00: these requests are half an hour apart each.
    let times = ["01:45:00", "02:15:00", "02:45:00", "02:15:00", "02:45:00", "03:15:00"];
    let lines = times.map(|time| line("192.0.2.1", &format!("25/Oct/2026:{time}.000")));
    let log = Log::lines(&lines);
    let mut replay = replay(&[&log], &["1 per 30 minutes fixed-window-per-key"]);
    replay.reading.zone = tollgate_replay::Zone::parse("Europe/Berlin").unwrap();
    let report = replay.run(|_| {}).unwrap();
    assert_eq!((report.candidates[0].early.denied, report.late), (0, 0));
    assert_eq!(report.last - report.first, 150 * 60_000_000);
    replay.reading.zone = tollgate_replay::Zone::parse("+01:00").unwrap();
    assert_eq!(replay.run(|_| {}).unwrap().candidates[0].early.denied, 2, "the zone matters");
}

#[test]
fn empty_files_are_skipped_and_headers_are_keys() {
    let line = |header: &str| {
        format!(
            r#"{{"ts":1791640536.25,"request":{{"client_ip":"192.0.2.1","headers":{{"X-Api-Key":["{header}"]}}}}}}"#
        )
    };
    let log = Log::lines(&[line("a"), line("b"), line("a")]);
    let empty = Log::new(b"");
    let mut replay = replay(&[&empty, &log], &["1/hour"]);
    replay.reading.key = tollgate_replay::KeyPart::parse("header:x-api-key+ip").unwrap();
    let report = replay.run(|_| {}).unwrap();
    assert_eq!((report.keys, report.candidates[0].early.denied), (2, 1));
    assert_eq!(report.candidates[0].early.worst[0].key, "a 192.0.2.1");
}

#[test]
fn only_requests_of_the_given_times_are_replayed() {
    let lines: Vec<_> = (0..10).map(|at| combined_line(at, "192.0.2.1", "")).collect();
    let log = Log::lines(&lines);
    let mut replay = replay(&[&log], &["1/hour"]);
    let noon = 1_791_633_600_000_000;
    (replay.reading.since, replay.reading.until) = (Some(noon + 2_000_000), Some(noon + 5_000_000));
    let report = replay.run(|_| {}).unwrap();
    assert_eq!((report.candidates[0].early.requests, report.lines.filtered), (3, 7));
}

#[test]
fn trusted_proxies_need_a_header_in_the_log() {
    let log = Log::lines(&[combined_line(1, "10.0.0.1", "")]);
    let mut replay = replay(&[&log], &["1/hour"]);
    replay.reading.client = tollgate_http::ClientIp::behind_hops(1);
    let error = replay.run(|_| {}).unwrap_err();
    assert!(error.contains("has no X-Forwarded-For"), "{error}");
}
