//! `/ready` with real stores that are read-only or do not answer at all.

use tollgate_testservers::{Engine, PATIENCE};

use super::*;

/// A server on this Redis.
fn on(url: &str) -> Server {
    Server::told(&format!("[store]\nurl = {url:?}\nbreaker_longest_pause = '200ms'\n"))
}

fn redis_cli(redis: &Engine, command: &[&str]) {
    let port = redis.port().to_string();
    let said = Command::new("redis-cli").args(["-p", &port]).args(command).output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.starts_with("OK"), "{command:?}: {said}");
}

/// Hits and `/ready` agree: both work, or both fail and the log has this reason.
async fn agrees(server: &Server, reason: Option<&str>) {
    let hit = ask("http", server.http, None, None).await;
    let ready = server.admin("/ready");
    match reason {
        None => {
            eventually("hits are answered", || server.admin("/ready").contains("\"ready\":true"));
            while ask("http", server.http, None, None).await.as_deref() != Ok("answered") {}
        }
        Some(reason) => {
            assert!(hit.is_ok_and(|said| said.contains("503")));
            assert!(ready.contains("503") && ready.contains("the store"), "{ready}");
            // A call that missed its deadline on a busy machine has another reason in the log.
            let until_logged = async {
                while !server.log().contains(reason) {
                    let _ = ask("http", server.http, None, None).await;
                }
            };
            let logged = tokio::time::timeout(PATIENCE, until_logged).await;
            assert!(logged.is_ok(), "{reason} is not in the log:\n{}", server.log());
        }
    }
}

#[tokio::test]
async fn a_redis_without_memory_is_not_ready() {
    let redis = Engine::redis(&[]);
    let server = on(&redis.url());
    agrees(&server, None).await;
    redis_cli(&redis, &["CONFIG", "SET", "maxmemory", "1"]);
    agrees(&server, Some("OOM")).await;
    redis_cli(&redis, &["CONFIG", "SET", "maxmemory", "0"]);
    agrees(&server, None).await;
}

#[tokio::test]
async fn a_replica_that_cannot_be_written_to_is_not_ready() {
    let redis = Engine::redis(&[]);
    let server = on(&redis.url());
    agrees(&server, None).await;
    redis_cli(&redis, &["REPLICAOF", "127.0.0.1", "1"]);
    agrees(&server, Some("read only replica")).await;
    redis_cli(&redis, &["REPLICAOF", "NO", "ONE"]);
    agrees(&server, None).await;
}

#[tokio::test]
async fn allotments_do_not_hide_that_the_store_is_full() {
    let redis = Engine::redis(&[]);
    let server = on(&format!("leased+{}", redis.url()));
    agrees(&server, None).await;
    redis_cli(&redis, &["CONFIG", "SET", "maxmemory", "1"]);
    let ready = server.admin("/ready");
    assert!(ready.contains("503") && ready.contains("the store"), "{ready}");
    server.logged("OOM");
}

#[tokio::test]
async fn a_store_that_is_down_at_the_start_is_logged_and_so_is_its_return() {
    let mut redis = Engine::redis(&[]);
    let url = redis.url();
    redis.kill();
    let server = on(&url);
    assert!(server.read("said").contains("its store does not answer"), "{}", server.read("said"));
    server.logged("the store does not answer");
    assert!(server.log().contains(&redis.port().to_string()), "{}", server.log());
    agrees(&server, Some("refused")).await;
    redis.again();
    server.logged("the store answers");
    agrees(&server, None).await;
}

#[test]
fn a_store_that_answers_is_logged_too() {
    let server = Server::told("");
    assert!(server.read("said").contains(" is ready\n"), "{}", server.read("said"));
    assert!(server.log().contains("the store answers"), "{}", server.log());
}

#[tokio::test]
async fn a_breaker_that_opens_names_its_store_without_the_password() {
    let mut redis = Engine::redis(&[]);
    let url = redis.url().replace("redis://", "redis://:secret@");
    redis_cli(&redis, &["CONFIG", "SET", "requirepass", "secret"]);
    let server = Server::told(&format!(
        "[store]\nurl = {url:?}\nbreaker_failures = 2\ndeadline = '10ms'\non_failure = 'closed'\n"
    ));
    redis.kill();
    while !server.log().contains("breaker opened") {
        let _ = ask("http", server.http, None, None).await;
    }
    let log = server.log();
    let line = log.lines().find(|line| line.contains("breaker opened")).unwrap();
    assert!(line.contains(&redis.port().to_string()) && !log.contains("secret"), "{line}");
}

#[tokio::test]
async fn usage_is_an_error_while_the_store_is_unavailable_whatever_the_rule() {
    let mut redis = Engine::redis(&[]);
    for rule in ["open", "closed", "local 1/2"] {
        let server = Server::told(&format!(
            "[store]\nurl = {:?}\non_failure = {rule:?}\nbreaker_longest_pause = '200ms'\n",
            redis.url()
        ));
        let usage = async || {
            let request = HIT.replace("/v1/hit", "/v1/usage");
            let request = format!("{request}connection: close\r\n\r\n");
            exchange(connect(server.http, None).await.unwrap(), &request).await.unwrap()
        };
        let said = usage().await;
        assert!(said.contains("{\"used\":0}"), "{said}");
        redis.kill();
        let said = usage().await;
        assert!(said.starts_with("HTTP/1.1 503"), "{rule}: {said}");
        redis.again();
    }
}
