//! The commands as users call them.

use std::process::Command;

use serde_json::Value;

use super::tollgate;

fn log(lines: &[&str]) -> (tollgate_testservers::Directory, String) {
    let dir = tollgate_testservers::Directory::new();
    let file = dir.path().join("access.log");
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let name = file.display().to_string();
    (dir, name)
}

const LINE: &str =
    r#"192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512 "-" "curl""#;

#[test]
fn only_a_log_without_a_readable_line_is_an_error() {
    let (_dir, mixed) = log(&[LINE, "nonsense", LINE]);
    let (code, out, _) = tollgate(&["replay", &mixed, "--limit", "1/hour"]);
    assert_eq!(code, 0);
    assert!(out.contains("1 lines could not be read") && out.contains(":2: \"nonsense\""), "{out}");
    let (_dir, bad) = log(&["nonsense"]);
    let (code, _, error) = tollgate(&["replay", &bad, "--limit", "1/hour"]);
    assert!(code == 2 && error.contains("no known format"), "{error}");
    let (code, out, _) = tollgate(&["replay", &bad, "--limit", "1/hour", "--format", "combined"]);
    assert!(code == 2 && out.contains("1 lines could not be read"), "{out}");
}

#[test]
fn a_log_without_requests_says_why_there_is_nothing_to_replay() {
    let (dir, full) = log(&[LINE]);
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (empty, page) = (file("empty.log"), file("report.html"));
    std::fs::write(&empty, "").unwrap();
    for (arguments, code, why) in [
        (
            &[&empty[..]][..],
            0,
            "0 lines, 0 keys, no requests\n\nThere is nothing to replay: the log has no lines.\n",
        ),
        (&[&full, "--format", "json"], 2, "no line could be read as json; without --format"),
        (&[&full, "--since", "2030-01-01"], 0, "no request is left of those that could be read"),
    ] {
        let more = ["--limit", "1/hour", "--suggest", "--html", &page];
        let (got, out, _) = tollgate(&[&["replay"][..], arguments, &more].concat());
        assert!(got == code && out.contains(why), "{out}");
        assert!(!out.contains("affected keys") && !out.contains("0/hour"), "{out}");
        let html = std::fs::read_to_string(&page).unwrap();
        assert!(html.contains("nothing to replay") && !html.contains("1970"), "{html}");
    }
}

#[test]
fn a_key_that_no_request_has_is_questioned() {
    let json = |user: &str| {
        format!("{{\"time\":\"2026-10-10T13:55:36Z\",\"remote_addr\":\"192.0.2.1\"{user}}}")
    };
    let (_dir, log) = log(&[&json(""), &json(",\"user\":\"eve\"")]);
    let noted = |key: &str| tollgate(&["replay", &log, "--limit", "1/hour", "--key", key]).1;
    let out = noted("field:nobody");
    assert!(
        out.contains("2 requests, which are all, had no key") && out.contains("is --key right?"),
        "{out}"
    );
    let out = noted("field:user");
    assert!(
        out.contains("1 requests had no key and share one") && !out.contains("right?"),
        "{out}"
    );
}

#[test]
fn wrong_arguments_of_a_replay_are_explained() {
    let (_dir, log) = log(&[LINE]);
    for (arguments, says) in [
        (&["--limit", "1/fortnight"][..], "fortnight"),
        (&[], "no limit: name one with --limit"),
        (&["--limit", "1/s", "--key", "colour"], "parts are ip, path, method"),
        (
            &["--limit", "1/s", "--key", "header:X-Key"],
            "has no field \"http_x_key\"; it has remote_addr",
        ),
        (&["--limit", "1/s", "--format", "iis7"], "known are common"),
        (&["--limit", "1/s", "--time-zone", "Mars"], "such as Europe/Berlin"),
        (&["--limit", "1/s", "--since", "monday"], "write a day as 2026-10-05"),
        (&["--limit", "1/s", "--proxy-hops", "1"], "has no X-Forwarded-For"),
        (&["--limit", "1/s", "--where", "path"], "write FIELD=PATTERN"),
        (&["--config", "/nowhere.toml"], "/nowhere.toml"),
    ] {
        let (code, out, error) = tollgate(&[&["replay", &log][..], arguments].concat());
        assert_eq!((code, &out[..]), (2, ""), "{arguments:?}");
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}

#[test]
fn anonymous_reports_and_lists_hold_no_key() {
    let (dir, log) = log(&[LINE, LINE, "192.0.2.77 nonsense"]);
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (html, denied) = (file("report.html"), file("denied.json"));
    let arguments =
        ["--limit", "1/hour", "--anonymise", "--salt", "s", "--html", &html, "--denied", &denied];
    let (code, out, _) = tollgate(&[&["replay", &log][..], &arguments].concat());
    assert_eq!(code, 0);
    for text in
        [out, std::fs::read_to_string(html).unwrap(), std::fs::read_to_string(denied).unwrap()]
    {
        assert!(text.contains("key-") && !text.contains("192.0.2."), "{text}");
    }
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let lines = vec![LINE; 200_000];
    let (_dir, log) = log(&lines);
    let binary = env!("CARGO_BIN_EXE_tollgate");
    // `script` runs a command on its own terminal.
    let command = format!("{binary} replay {log} --limit 1/hour");
    let output = Command::new("script").args(["-qec", &command, "/dev/null"]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains(" left") && shown.contains("requests, "), "{shown}");
    let (_, _, error) = tollgate(&["replay", &log, "--limit", "1/hour"]);
    assert_eq!(error, "");
}

#[test]
fn simulations_are_compared_and_repeatable() {
    let arguments = [
        "simulate",
        "10/second",
        "10/second fixed-window",
        "--load",
        "poisson 15/second",
        "--clients",
        "4",
        "--retry",
        "retry-after",
        "--for",
        "1m",
        "--json",
    ];
    let (code, first, error) = tollgate(&arguments);
    assert_eq!(code, 0, "{error}");
    assert_eq!(tollgate(&arguments).1, first);
    let json: Value = serde_json::from_str(&first).unwrap();
    let [gcra, window] = &json["limits"].as_array().unwrap()[..] else { panic!("{json:#}") };
    assert_eq!(gcra["requests"], window["requests"]);
    for limit in [gcra, window] {
        // Four clients, 60 seconds, ten a second and one burst more.
        let admitted = limit["admitted"].as_u64().unwrap();
        assert!((2_000..=4 * 610).contains(&admitted), "{admitted}");
    }
    assert_ne!(tollgate(&[&arguments[..], &["--seed", "2"]].concat()).1, first);
}

#[test]
fn wrong_arguments_of_a_simulation_are_explained() {
    for (arguments, says) in [
        (&["1/s", "--load", "often"][..], "write \"constant 3/second\""),
        (&["1/s", "--load", "poisson 3"], "such as 3/second"),
        (&["1/s", "--load", "poisson 3/s", "--retry", "maybe"], "write none, immediate"),
        (&["1/s", "--load", "poisson 3/s", "--clients", "0"], "1..=1000000"),
        (
            &["1/s", "--load", "poisson 3/s", "--clients", "1", "--clients", "2"],
            "once for each load",
        ),
        (&["1/s"], "--load"),
        (&["--load", "poisson 3/s"], "LIMIT"),
    ] {
        let (code, out, error) = tollgate(&[&["simulate"][..], arguments].concat());
        assert_eq!((code, &out[..]), (2, ""), "{arguments:?}");
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
    let (code, help, _) = tollgate(&["simulate", "--help"]);
    assert!(code == 0 && help.contains("Examples:"), "{help}");
}
