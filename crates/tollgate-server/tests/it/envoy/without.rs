//! Without the server or its store, Envoy follows its settings, and never takes a missing answer
//! for permission.

use super::*;

/// The URL of a store without a server.
fn no_store() -> [String; 2] {
    ["--store".to_owned(), format!("redis://127.0.0.1:{}", free_port())]
}

fn closed(text: &str) -> String {
    text.replace("failure_mode_deny: false", "failure_mode_deny: true")
}

#[test]
fn without_the_store_routes_are_open_or_closed_as_configured() {
    if skipped("without_the_store_routes_are_open_or_closed_as_configured") {
        return;
    }
    let store = no_store();
    let arguments = [&store[0][..], &store[1]];
    let open = Edge::with(str::to_owned, &arguments);
    assert_eq!(open.statuses("/", 3), [200; 3]);
    let closed = Edge::with(closed, &arguments);
    assert_eq!(closed.statuses("/", 3), [503; 3]);
    assert_eq!(closed.get("/free").status(), 200, "no descriptor is sent, nobody is asked");
}

#[test]
fn without_the_server_routes_follow_their_setting_until_it_is_back() {
    if skipped("without_the_server_routes_follow_their_setting_until_it_is_back") {
        return;
    }
    let mut edge = Edge::with(closed, &[]);
    assert_eq!(edge.get("/").status(), 200);
    edge.tollgate.kill();
    eventually("it is noticed", || edge.get("/").status() == 503);
    let serve = edge.serve.clone();
    edge.tollgate.start(|command| {
        command.args(serve);
    });
    eventually("it is asked again", || edge.get("/").status() == 200);
}

#[test]
fn a_silent_server_is_not_waited_for() {
    if skipped("a_silent_server_is_not_waited_for") {
        return;
    }
    let open = Edge::start();
    assert_eq!(open.get("/").header("x-ratelimit-remaining"), Some("59"));
    open.tollgate.freeze();
    let answer = open.get("/");
    assert_eq!((answer.status(), answer.header("x-ratelimit-remaining")), (200, None));
    open.tollgate.thaw();
    eventually("it is asked again", || open.get("/").header("x-ratelimit-remaining").is_some());
}
