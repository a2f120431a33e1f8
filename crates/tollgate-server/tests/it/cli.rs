//! The command line, as scripts use it.

use std::process::Command;

use serde_json::Value;

use crate::server::Server;

/// Exit code, output, errors.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_exit_code_says_what_came_out() {
    let server = Server::start(&[]);
    let url = format!("http://{}", server.http);
    let ask = |command: &str, more: &[&str]| {
        run(&[&[command, "2/day", "bob", "--server", &url][..], more].concat())
    };
    assert_eq!(ask("hit", &[]).0, 0);
    let (code, out, _) = ask("hit", &[]);
    assert_eq!(code, 0);
    assert!(out.starts_with("allowed: 0 of 2 left"), "{out}");
    let (code, out, _) = ask("hit", &["--json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["allowed"]), (1, &Value::Bool(false)));
    assert_eq!(ask("peek", &[]).0, 1);
    assert_eq!(ask("usage", &[]).1, "2 in use\n");
    assert_eq!(ask("refund", &[]).0, 0);
    assert_eq!(ask("charge", &["--cost", "5"]).0, 0);
    assert_eq!(ask("peek", &[]).0, 1);
    assert_eq!(ask("set", &["--cost", "1"]).0, 0);
    assert_eq!(ask("reset", &[]).1, "forgotten\n");
}

#[test]
fn what_goes_wrong_is_said_and_is_no_denial() {
    let server = Server::start(&[]);
    let url = format!("http://{}", server.http);
    for (arguments, says) in [
        (&["hit", "nobody", "bob", "--server", &url][..], "limit \"nobody\": there is no rule"),
        (&["hit", "1/day", "bob", "--server", "http://127.0.0.1:1"], "refused"),
        (&["hit", "1/day", "bob", "--server", "ftp://x"], "expected http://host:port"),
        (&["hit", "1/day", "bob", "--store", "tape:"], "known are memory:"),
        (&["hit", "api", "bob", "--store", "memory:"], "a store has no rules"),
        (&["limits", "10/fortnight"], "fortnight"),
        (&["hit"], "required"),
    ] {
        let (code, out, error) = run(arguments);
        assert_eq!((code, &out[..]), (2, ""), "{arguments:?}");
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}

#[test]
fn a_store_is_asked_without_a_server() {
    let (code, out, _) = run(&["hit", "5/minute", "bob", "--store", "memory:"]);
    assert_eq!((code, &out[..]), (0, "allowed: 4 of 5 left, as good as new in 12 s\n"));
}

#[test]
fn limits_are_explained() {
    let (code, out, _) = run(&["limits", "100/minute burst=20; 5/day moving-window"]);
    assert_eq!(code, 0);
    assert!(
        out.contains("20 at once, then one every 600 ms") && out.contains("5 in any 1 day"),
        "{out}"
    );
    let (_, out, _) = run(&["limits", "--json", "5/day name=login"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json[0]["name"], "login");
}

#[test]
fn a_load_is_answered_and_counted() {
    let server = Server::start(&[]);
    for (protocol, address) in [("resp", server.resp), ("http", server.http)] {
        let address = address.to_string();
        let (code, out, error) = run(&[
            "bench",
            "--protocol",
            protocol,
            "--address",
            &address,
            "--seconds",
            "1",
            "-c",
            "2",
            "-P",
            "4",
            "--json",
        ]);
        assert_eq!(code, 0, "{error}");
        let json: Value = serde_json::from_str(&out).unwrap();
        assert!(json["allowed"].as_u64().is_some_and(|allowed| allowed > 0), "{out}");
        assert_eq!(json["errors"], 0);
    }
}

#[test]
fn shells_and_readers_of_manuals_are_served() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completions", shell]).1.contains("tollgate"), "{shell}");
    }
    assert!(run(&["man"]).1.contains("tollgate\\-serve"));
}
