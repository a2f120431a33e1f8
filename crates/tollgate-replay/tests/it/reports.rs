//! Reports as people and programs read them.

use crate::logs::{Log, combined_line, replay, report};

const SECRET_KEY: &str = "203.0.113.77";

fn log() -> Log {
    let mut lines: Vec<_> = (0..50).map(|at| combined_line(at, SECRET_KEY, "")).collect();
    lines.push("nonsense".to_owned());
    Log::lines(&lines)
}

#[test]
fn text_names_counts_keys_and_unreadable_lines() {
    let log = log();
    let report = report(&[&log], &["10/minute", "20/minute fixed-window"]);
    let text = report.to_text();
    for part in [
        "51 lines (combined), 1 keys, from 2026-10-10 12:00:00 to 2026-10-10 12:00:49 UTC",
        "1 lines could not be read",
        ":51: \"nonsense\"",
        "denied         32 of 50 requests (64.00 %)",
        "affected keys  1 of 1 (100 %)",
        "Most units of a key in any 1 minute: 50 (203.0.113.77)",
        SECRET_KEY,
        "Side by side",
        "20/minute fixed-window",
    ] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    let suggestions = report.suggestions_to_text();
    assert!(suggestions.contains("50/minute"), "{suggestions}");
}

#[test]
fn json_has_the_same_figures() {
    let log = log();
    let report = report(&[&log], &["10/minute"]);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let limit = &json["limits"][0];
    assert_eq!(limit["denied"], report.candidates[0].early.denied);
    assert_eq!(limit["worst"][0]["key"], SECRET_KEY);
    assert_eq!(json["unreadable"], 1);
    assert_eq!(json["demand"][0]["highest"], 50);
}

#[test]
fn html_loads_nothing_and_shows_no_markup_of_keys() {
    let line = combined_line(1, "192.0.2.1", "").replace(" - - ", " - <script>alert(1)</script> ");
    let log = Log::lines(&[&line, &line, &line]);
    let mut replay = replay(&[&log], &["1/hour"]);
    replay.reading.key = tollgate_replay::KeyPart::parse("user").unwrap();
    let html = replay.run(|_| {}).unwrap().to_html();
    assert!(html.contains("&lt;script&gt;"));
    for forbidden in ["<script", "http://", "https://", "src=", "url(", "@import"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn anonymous_reports_hold_no_key() {
    let log = log();
    let mut report = report(&[&log], &["10/minute"]);
    report.anonymise(b"salt");
    for text in [report.to_text(), report.to_json(), report.to_html()] {
        assert!(!text.contains(SECRET_KEY), "{text}");
        assert!(text.contains("key-"), "{text}");
    }
    assert!(!report.to_text().contains("nonsense"), "a line may hold a key");
}

#[test]
fn a_log_without_readable_lines_has_its_own_message() {
    let good = combined_line(1, "192.0.2.1", "");
    let log = Log::lines(&["x", "y"]);
    let mut replay = replay(&[&log], &["1/hour"]);
    let error = replay.run(|_| {}).unwrap_err();
    assert!(error.contains("no known format"), "{error}");
    replay.format = tollgate_replay::Format::named("combined");
    assert!(replay.run(|_| {}).unwrap().nothing_readable());
    assert!(!report(&[&Log::lines(&[good])], &["1/hour"]).nothing_readable());
}

#[test]
fn denied_requests_are_named_by_their_line() {
    let log = log();
    let mut replay = replay(&[&log], &["10 per 100 days fixed-window"]);
    let denied = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let into = std::rc::Rc::clone(&denied);
    replay.on_denied = Some(Box::new(move |request| {
        assert!(request.retry_after.is_some());
        into.borrow_mut().push((request.line, request.key.to_owned()));
        Ok(())
    }));
    replay.run(|_| {}).unwrap();
    let expected: Vec<_> = (11..=50).map(|line| (line, SECRET_KEY.to_owned())).collect();
    assert_eq!(*denied.borrow(), expected);
}

#[test]
fn keys_beyond_the_bound_are_counted_and_left_out() {
    let lines: Vec<_> = (0..9).map(|n| combined_line(n, &format!("192.0.2.{n}"), "")).collect();
    let log = Log::lines(&lines);
    let mut replay = replay(&[&log], &["1/hour"]);
    replay.max_keys = 5;
    let report = replay.run(|_| {}).unwrap();
    assert_eq!((report.keys, report.beyond_max_keys), (5, 4));
    assert_eq!(report.candidates[0].early.requests, 5);
    let text = report.to_text();
    assert!(
        text.contains("4 requests were left out, because a replay tells 5 keys apart"),
        "{text}"
    );
}
