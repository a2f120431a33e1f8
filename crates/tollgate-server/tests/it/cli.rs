//! The command line as scripts use it.

use std::process::Command;

use serde_json::Value;

use tollgate_testservers::{Certificates, free_port};

use crate::server::Server;

/// Exit code, standard output, standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_exit_code_is_the_decision() {
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
fn errors_are_printed_and_are_no_denials() {
    let server = Server::start(&[]);
    let of = |address: std::net::SocketAddr| format!("http://{address}");
    let (url, secure) = (of(server.http), format!("https://{}", server.http));
    for (arguments, says) in [
        (&["hit", "nobody", "bob", "--server", &url][..], "limit \"nobody\": there is no rule"),
        (&["hit", "1/day", "bob", "--server", "http://127.0.0.1:1"], "refused"),
        (
            &["hit", "1/day", "bob", "--server", &of(server.resp)],
            "the answer is not HTTP; is this the HTTP port",
        ),
        (&["hit", "1/day", "bob", "--server", &of(server.grpc)], "is that the HTTP port"),
        (&["hit", "1/day", "bob", "--server", &of(server.admin)], "; is that the HTTP port?"),
        (
            &["hit", "1/day", "bob", "--server", &secure],
            "the answer is not TLS; should the URL begin with http?",
        ),
        (&["set", "1/day", "bob", "--server", &url], "set: --cost is missing"),
        (&["hit", "1/day", "bob", "--server", &url, "--cert", "x"], "--key"),
        (&["hit", "1/day", "bob", "--server", &url, "--timeout", "soon"], "is not a duration"),
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
fn a_silent_server_is_given_up() {
    // The system accepts connections, and no program answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let (code, out, error) = run(&["hit", "1/day", "bob", "--server", &url, "--timeout", "300ms"]);
    assert_eq!((code, &out[..]), (2, ""));
    assert!(error.contains("no answer within 300ms"), "{error}");
}

#[test]
fn a_client_certificate_is_presented() {
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
fn a_closed_pipe_is_no_error() {
    let dir = tollgate_testservers::Directory::new();
    let rules: Vec<_> = (0..5_000).map(|n| format!("rule{n} = '5/minute'\n")).collect();
    let file = dir.path().join("tollgate.toml");
    std::fs::write(&file, format!("[limits]\n{}", rules.concat())).unwrap();
    let binary = env!("CARGO_BIN_EXE_tollgate");
    for command in [format!("check {}", file.display()), "completions bash".into(), "man".into()] {
        // The exit status of the first command of the pipe, and its errors.
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
fn durable_files_are_checked_and_repaired() {
    let directory = tollgate_testservers::Directory::new();
    let path = directory.path().join("counts");
    let file = path.to_str().unwrap();
    let url = format!("durable:{file}");
    for key in 0..200 {
        let (code, _, error) = run(&["charge", "9/day", &format!("key {key}"), "--store", &url]);
        assert_eq!(code, 0, "{error}");
    }
    let (code, out, error) = run(&["durable", "check", file]);
    assert_eq!((code, &error[..]), (0, ""));
    assert!(out.starts_with(&format!("{file}: intact\n")), "{out}");
    assert!(out.contains("closed it\n  200 keys, 0 of them expired\n  gcra:"), "{out}");

    let mut bytes = std::fs::read(&path).unwrap();
    let record = bytes.windows(7).rposition(|window| window == b"key 150").unwrap();
    bytes[record..record + 7].copy_from_slice(b"key 1_0");
    std::fs::write(&path, &bytes).unwrap();
    let (code, out, _) = run(&["durable", "check", file, "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["intact"]), (1, &Value::Bool(false)), "{report}");
    assert!(report["damage"].as_array().is_some_and(|damage| !damage.is_empty()), "{report}");

    let (code, out, error) = run(&["durable", "repair", file]);
    assert_eq!((code, &error[..]), (1, ""), "{out}");
    let repaired = format!("{file}.repaired");
    assert!(out.starts_with(&format!("{repaired}: ")) && out.contains("damage of the"), "{out}");
    assert_eq!(run(&["durable", "check", &repaired]).0, 0);
    let usage = ["usage", "9/day", "key 42", "--store", &format!("durable:{repaired}")];
    assert_eq!(run(&usage).1, "1 in use\n");
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the old file is as it was");

    let again = directory.path().join("again");
    let to = ["durable", "repair", &repaired, "--to", again.to_str().unwrap()];
    assert_eq!(run(&to).0, 0);
    let (code, _, error) = run(&to);
    assert!(code == 2 && error.contains("exists already"), "{error}");
    let (code, _, error) = run(&["durable", "check", "/nowhere"]);
    assert!(code == 2 && error.contains("/nowhere"), "{error}");
}

#[test]
fn durable_file_in_use_is_not_checked() {
    let server = Server::told("[store]\nurl = 'durable:counts'\n");
    let file = server.path("counts");
    let (code, _, error) = run(&["durable", "check", file.to_str().unwrap()]);
    assert!(code == 2 && error.contains("in use"), "{error}");
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

/// The token is "secret".
const TOKENS: &str = "[auth.tokens]\nshop = 'sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b'\n";

/// Loads the server for a second over two connections.
fn bench(protocol: &str, address: std::net::SocketAddr, more: &[&str]) -> (i32, Value, String) {
    let address = address.to_string();
    let load = ["bench", "--protocol", protocol, "--address", &address];
    let small = ["--seconds", "1", "-c", "2", "-P", "4", "--json"];
    let (code, out, error) = run(&[&load[..], &small, more].concat());
    (code, serde_json::from_str(&out).unwrap_or_default(), error)
}

#[test]
fn answers_to_a_load_are_counted() {
    let server = Server::start(&[]);
    for (protocol, address) in [("resp", server.resp), ("http", server.http), ("grpc", server.grpc)]
    {
        let (code, json, error) = bench(protocol, address, &[]);
        assert_eq!(code, 0, "{error}");
        assert!(json["allowed"].as_u64().is_some_and(|allowed| allowed > 0), "{json}");
        assert_eq!(json["errors"], 0);
        assert_eq!(json["errors_by_kind"], serde_json::json!({}));
    }
}

#[test]
fn a_grpc_load_asks_a_rule_of_a_domain() {
    let server = Server::told(&format!(
        "{TOKENS}[[domains.shop.descriptors]]\nkey = 'user'\nlimit = '1/day'\n"
    ));
    let ask = |limit| {
        let of = ["--domain", "shop", "--limit", limit, "--keys", "1", "--token", "secret"];
        bench("grpc", server.grpc, &of)
    };
    let (code, json, error) = ask("user");
    assert_eq!((code, &json["allowed"]), (0, &1.into()), "{json} {error}");
    assert!(json["denied"].as_u64().is_some_and(|denied| denied > 0), "{json}");
    // A limit that comes with the request has its own counter.
    let (code, json, error) = ask("2/365 days");
    assert_eq!((code, &json["allowed"]), (0, &2.into()), "{json} {error}");
    let (code, json, _) = ask("nobody");
    assert_eq!((code, &json["allowed"]), (2, &0.into()), "{json}");
    let first = json["errors_by_kind"]["no rule"]["first"].as_str().unwrap();
    assert_eq!(first, "domain \"shop\": no rule limits descriptor \"nobody\"");
    let (code, _, error) = ask("5/day token-bucket");
    assert!(code == 2 && error.contains("over grpc it must be a count per second"), "{error}");
}

#[test]
fn errors_of_a_load_are_counted_by_kind() {
    let server = Server::told(TOKENS);
    let wrong = &["--token", "wrong"][..];
    for (protocol, address, more, kind, text) in [
        ("resp", server.http, &[][..], "not RESP", "is that the RESP port?"),
        ("http", server.resp, &[], "not HTTP", "is that the HTTP port?"),
        ("grpc", server.resp, &[], "HTTP/2", "is that the gRPC port?"),
        ("resp", server.resp, wrong, "WRONGPASS", "invalid username-password"),
        ("http", server.http, wrong, "HTTP 401", "token"),
        ("grpc", server.grpc, wrong, "gRPC Unauthenticated", "a token is needed"),
    ] {
        let (code, json, error) = bench(protocol, address, more);
        assert_eq!((code, &json["allowed"]), (2, &0.into()), "{json}");
        let (errors, group) = (json["errors"].as_u64(), &json["errors_by_kind"][kind]);
        assert!(group["count"].as_u64() == errors && errors > Some(0), "{protocol} {json}");
        assert!(group["first"].as_str().unwrap().contains(text), "{protocol} {json}");
        assert!(error.contains(&format!("{0} of {0} requests failed", errors.unwrap())), "{error}");
    }
    let nowhere = free_port().to_string();
    let (code, out, error) =
        run(&["bench", "--address", &format!("127.0.0.1:{nowhere}"), "--seconds", "3600"]);
    assert_eq!((code, &out[..]), (2, ""));
    assert!(error.contains(&nowhere) && error.contains("refused"), "{error}");
}

#[test]
fn errors_of_a_load_are_in_its_table() {
    let server = Server::start(&[]);
    let address = server.http.to_string();
    let (code, out, _) = run(&["bench", "--address", &address, "-s", "1", "-c", "1"]);
    assert_eq!(code, 2);
    assert!(out.contains(" not RESP: \"HTTP/1.1 400 Bad Request\" is no RESP"), "{out}");
}

#[test]
fn a_load_ends_though_the_server_is_silent() {
    // The system accepts connections, and no program answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, json, _) = bench("http", silent.local_addr().unwrap(), &[]);
    assert_eq!((code, &json["answers"]), (2, &0.into()), "{json}");
    assert_eq!(json["errors_by_kind"]["no answer"]["count"], 2, "{json}");
}

#[test]
fn progress_of_a_load_is_on_standard_error() {
    let server = Server::start(&[]);
    let (_, json, error) = bench("resp", server.resp, &[]);
    let line = error.lines().next().unwrap_or_default();
    assert!(line.starts_with("   1 of 1 s ") && line.contains(" requests "), "{error}");
    assert!(line.contains(" 0 errors ") && json["answers"].is_u64(), "{error}");
    assert_eq!(bench("resp", server.resp, &["--quiet"]).2, "");
}

#[test]
fn completions_and_manual_pages_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completions", shell]).1.contains("tollgate"), "{shell}");
    }
    assert!(run(&["man"]).1.contains("tollgate\\-serve"));
}
