//! The command line, as scripts use it.

use std::process::Command;

use serde_json::Value;

use tollgate_testkit::servers::Certificates;

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
    let of = |address: std::net::SocketAddr| format!("http://{address}");
    let (url, secure) = (of(server.http), format!("https://{}", server.http));
    for (arguments, says) in [
        (&["hit", "nobody", "bob", "--server", &url][..], "limit \"nobody\": there is no rule"),
        (&["hit", "1/day", "bob", "--server", "http://127.0.0.1:1"], "refused"),
        (
            &["hit", "1/day", "bob", "--server", &of(server.resp)],
            "does not speak HTTP; is that the HTTP",
        ),
        (&["hit", "1/day", "bob", "--server", &of(server.grpc)], "is that the HTTP port"),
        (&["hit", "1/day", "bob", "--server", &of(server.admin)], "; is that the HTTP port?"),
        (&["hit", "1/day", "bob", "--server", &secure], "does not speak TLS; should it be http?"),
        (&["set", "1/day", "bob", "--server", &url], "set: --cost is missing"),
        (&["hit", "1/day", "bob", "--server", &url, "--cert", "x"], "--key"),
        (&["hit", "1/day", "bob", "--server", &url, "--timeout", "soon"], "is no span"),
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
fn a_server_that_does_not_answer_is_not_waited_for() {
    // The system lets clients in, and nobody takes them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let (code, out, error) = run(&["hit", "1/day", "bob", "--server", &url, "--timeout", "300ms"]);
    assert_eq!((code, &out[..]), (2, ""));
    assert!(error.contains("no answer within 300ms"), "{error}");
}

#[test]
fn a_certificate_of_the_client_is_shown() {
    let certificates = Certificates::new();
    let name = |file| certificates.name(file);
    let server = Server::told(&format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\n",
        name("server.crt"),
        name("server.key"),
        name("ca.crt")
    ));
    let url = format!("https://{}", server.http);
    let (ca, cert, key) = (name("ca.crt"), name("client.crt"), name("client.key"));
    let hit = ["hit", "5/day", "bob", "--server", &url, "--ca", &ca];
    let (code, out, error) = run(&[&hit[..], &["--cert", &cert, "--key", &key]].concat());
    assert_eq!(code, 0, "{error}");
    assert!(out.starts_with("allowed: 4 of 5 left"), "{out}");
    let (code, _, error) = run(&hit);
    assert!(code == 2 && error.contains("ertificate"), "{error}");
    let plain = url.replace("https", "http");
    let (code, _, error) = run(&["hit", "5/day", "bob", "--server", &plain]);
    assert!(code == 2 && error.contains("https"), "{error}");
}

#[test]
fn a_reader_that_stops_is_no_error() {
    let dir = tollgate_testkit::servers::Directory::new();
    let rules: Vec<_> = (0..5_000).map(|n| format!("rule{n} = '5/minute'\n")).collect();
    let file = dir.path().join("tollgate.toml");
    std::fs::write(&file, format!("[limits]\n{}", rules.concat())).unwrap();
    let binary = env!("CARGO_BIN_EXE_tollgate");
    for command in [format!("check {}", file.display()), "completions bash".into(), "man".into()] {
        // The status of the first command of the pipe, and what it complains of.
        let script = format!("set -o pipefail; {binary} {command} | head -c 1 > /dev/null");
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), &error[..]), (Some(0), ""), "{command}");
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
