//! A reset at one server reaches the denials that another one remembers.

use tollgate_testservers::{Engine, eventually};

use super::load::{ask, hit};
use crate::server::Server;

#[test]
fn a_reset_at_one_server_ends_the_denial_that_another_one_remembers() {
    let redis = Engine::redis(&[]);
    // Nothing but the announcement of the reset ends a remembered denial in this test.
    let config = format!(
        "[store]\nurl = {:?}\ndeadline = \"500ms\"\ndenials_for = \"1h\"\n[limits]\napi = \"3/365 days\"\n",
        redis.url()
    );
    let [one, other] = [(); 2].map(|()| Server::told(&config));
    eventually("the limit is used up", || hit(one.http) == Some(false));
    eventually("the server hears announcements", || {
        one.admin("/metrics").contains("\ntollgate_store_announcements_heard 1\n")
    });
    let answer = || ask(one.http, "POST /v1/hit").unwrap_or_default();
    eventually("the denial is remembered", || answer().contains("\"source\":\"denial_cache\""));
    let reset = ask(other.http, "POST /v1/reset").unwrap_or_default();
    assert!(reset.starts_with("HTTP/1.1 200"), "{reset}");
    eventually("the reset is noticed", || hit(one.http) == Some(true));
}
