//! `charge_local`: whether the store is charged for what was admitted without it.

use tollgate_testservers::Engine;

use super::*;

/// The answer to a request for `key`, as JSON.
async fn post(server: &Server, path: &str) -> serde_json::Value {
    let request = format!(
        "POST {path}?limit=100/365%20days&key=key HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    );
    let response = exchange(connect(server.http, None).await.unwrap(), &request).await.unwrap();
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// The units in use in Redis after three hits that were admitted without it and one with it.
async fn used_after_outage(query: &str, setting: &str) -> serde_json::Value {
    let redis = Engine::redis(&[]);
    let server = Server::told(&format!(
        "[store]\nurl = '{}{query}'\non_failure = 'local 1/1'\nbreaker_longest_pause = '200ms'\n{setting}\n",
        redis.url()
    ));
    let set = |limit: &str| {
        let port = redis.port().to_string();
        let arguments = ["-p", &port, "CONFIG", "SET", "maxmemory", limit];
        assert!(Command::new("redis-cli").args(arguments).status().unwrap().success());
    };
    // Redis refuses every write.
    set("1");
    for _ in 0..3 {
        assert_eq!(post(&server, "/v1/hit").await["source"], "fallback");
    }
    set("0");
    while post(&server, "/v1/peek").await["source"] != "store" {}
    assert_eq!(post(&server, "/v1/hit").await["source"], "store");
    post(&server, "/v1/usage").await["used"].clone()
}

#[tokio::test]
async fn local_admissions_are_charged_to_the_store_unless_that_is_turned_off() {
    assert_eq!(used_after_outage("", "").await, 4);
    assert_eq!(used_after_outage("", "charge_local = false").await, 1);
    assert_eq!(used_after_outage("?guard.charge_local=false", "").await, 1);
}
