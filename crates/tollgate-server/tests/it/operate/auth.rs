//! Tokens on every port.

use super::*;

/// A token, and its hash for a configuration.
fn token() -> (String, String) {
    let (code, said, _) = run(&["token", "shop", "--json"]);
    assert_eq!(code, Some(0));
    let object: serde_json::Value = serde_json::from_str(&said).unwrap();
    let text = |name: &str| object[name].as_str().unwrap().to_owned();
    (text("token"), text("hash"))
}

#[tokio::test]
async fn every_port_asks_for_its_token_and_takes_no_other() {
    let ((asks, ask_hash), (operates, admin_hash)) = (token(), token());
    let server = Server::with(
        &format!("[auth.tokens]\nshop = {ask_hash:?}\n[auth.admin_tokens]\nme = {admin_hash:?}\n"),
        &["--log-level", "trace"],
        |_| {},
    );
    for (port, address) in server.ports() {
        let (right, wrong) = if port == "admin" { (&operates, &asks) } else { (&asks, &operates) };
        let with = async |token: Option<&str>| ask(port, address, None, token).await.unwrap();
        assert_eq!(with(Some(right)).await, "answered", "{port}");
        for token in [None, Some(&wrong[..]), Some("guess"), Some(&right[..right.len() - 1])] {
            assert_eq!(with(token).await, "unauthorized", "{port}");
        }
    }
    let log = server.log();
    assert!(!log.contains(&asks) && !log.contains(&operates) && !log.contains("somebody"), "{log}");
}

#[tokio::test]
async fn health_checks_need_no_token() {
    let hash = token().1;
    let server = Server::told(&format!("[auth]\ntokens.a = {hash:?}\nadmin_tokens.a = {hash:?}\n"));
    for path in ["/health", "/ready"] {
        let io = connect(server.admin, None).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let said = exchange(io, &request).await.unwrap();
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    }
    let io = connect(server.grpc, None).await.unwrap();
    let health = grpc(io, "/grpc.health.v1.Health/Check", Vec::new(), None).await;
    assert_eq!(health.as_deref(), Ok("0"));
}

#[tokio::test]
async fn redis_clients_can_send_a_token_in_every_form() {
    let (token, hash) = token();
    let server = Server::told(&format!("[auth.tokens]\nshop = {hash:?}\n"));
    let said = async |first: &str| {
        let io = connect(server.resp, None).await.unwrap();
        let said = exchange(io, &format!("{first}\r\nCL.THROTTLE a 1 1 1\r\nQUIT\r\n")).await;
        said.unwrap()
    };
    for first in [
        format!("AUTH {token}"),
        format!("AUTH default {token}"),
        format!("AUTH shop {token}"),
        format!("HELLO 3 AUTH default {token}"),
        format!("HELLO 2 AUTH shop {token} SETNAME x"),
    ] {
        assert!(said(&first).await.contains("*5\r\n"), "{}", first.replace(&token, "…"));
    }
    for (first, expected) in [
        ("AUTH guess".to_owned(), "-WRONGPASS"),
        (format!("AUTH other {token}"), "-WRONGPASS"),
        ("HELLO 3 AUTH default guess".to_owned(), "-WRONGPASS"),
        ("HELLO 3".to_owned(), "-NOAUTH"),
        ("PING".to_owned(), "-NOAUTH"),
        ("TG.HIT a 5/minute".to_owned(), "-NOAUTH"),
    ] {
        let said = said(&first).await;
        assert!(said.starts_with(expected) && said.contains("-NOAUTH"), "{first}: {said}");
        assert!(!said.contains("*5\r\n"));
    }
    // Six wrong tokens, and each time a request without a valid one.
    let said = server.admin("/metrics");
    let counted = "tollgate_connections_refused_total{port=\"resp\"} 12\n";
    assert!(said.contains(counted), "{said}");
}

#[tokio::test]
async fn a_hash_from_the_command_line_works_like_one_from_the_file() {
    let (token, hash) = token();
    let server = Server::with("", &["--token-hash", &hash], |_| {});
    let asked = async |token: Option<&str>| ask("http", server.http, None, token).await.unwrap();
    assert_eq!(asked(Some(&token)).await, "answered");
    assert_eq!(asked(None).await, "unauthorized");
}

#[test]
fn a_token_in_place_of_its_hash_is_refused_without_repeating_it() {
    let (token, _) = token();
    let (code, _, said) = run(&["serve", "--token-hash", &token]);
    assert_eq!(code, Some(2));
    assert!(said.contains("no hash of a token") && !said.contains(&token), "{said}");
}

#[tokio::test]
async fn tokens_change_with_the_file() {
    let ((old, old_hash), (new, new_hash)) = (token(), token());
    let server = Server::told(&format!("[auth.tokens]\nshop = {old_hash:?}\n"));
    let write = |text: &str| {
        server.put("tollgate.toml", text);
        server.process.signal("HUP");
    };
    let asked = async |token: &str| ask("http", server.http, None, Some(token)).await.unwrap();
    write(&format!("[auth.tokens]\nshop = {new_hash:?}\n"));
    while asked(&new).await != "answered" {}
    assert_eq!(asked(&old).await, "unauthorized");
    write("[auth.tokens]\nshop = 'tg_secret'\n");
    eventually("it complains", || server.log().contains("no hash of a token"));
    assert_eq!(asked(&new).await, "answered");
}

#[tokio::test]
async fn removing_the_last_token_revokes_it_and_opens_nothing() {
    let (token, hash) = token();
    let config = format!("[auth.tokens]\nshop = {hash:?}\n[auth.admin_tokens]\nme = {hash:?}\n");
    let server = Server::told(&config);
    server.answers(None, Some(&token)).await;
    server.put("tollgate.toml", "");
    server.process.signal("HUP");
    server.logged("the last token was removed");
    for (port, address) in server.ports() {
        for shown in [Some(&token[..]), Some(""), None] {
            let answer = ask(port, address, None, shown).await.unwrap();
            assert_eq!(answer, "unauthorized", "{port} {shown:?}");
        }
    }
    server.put("tollgate.toml", &config);
    server.process.signal("HUP");
    while ask("http", server.http, None, Some(&token)).await.unwrap() != "answered" {}
    server.answers(None, Some(&token)).await;
}

#[tokio::test]
async fn metrics_show_that_a_removed_last_token_needs_a_restart() {
    let (_, hash) = token();
    let server = Server::told(&format!("[auth.tokens]\nshop = {hash:?}\n"));
    assert!(server.admin("/metrics").contains("tollgate_config_in_force 1\n"));
    server.put("tollgate.toml", "");
    server.process.signal("HUP");
    eventually("the metric", || server.admin("/metrics").contains("tollgate_config_in_force 0\n"));
    assert!(server.admin("/rules").contains("\"needs_restart\":[\"auth.tokens\"]"));
}
