//! Logs that real servers write.

#![expect(clippy::float_arithmetic, reason = "reports state times as decimal seconds")]

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use serde_json::Value;
use tollgate::{Clock as _, SystemClock};
use tollgate_testservers::{Process, eventually, free_port};

use super::{curl, replay};
use crate::backend;
use crate::envoy;
use crate::http::proxies::nginx;

/// Seconds since the epoch.
fn now() -> f64 {
    SystemClock::new().now().as_micros() as f64 / 1e6
}

/// Five requests from one address and three from another one.
fn requests(front: SocketAddr) {
    eventually("the proxy listens", || TcpStream::connect(front).is_ok());
    let urls = |count: usize| vec![format!("http://{front}/users/7?x=1"); count];
    assert_eq!(curl("127.0.0.2", &urls(5)), [200; 5]);
    assert_eq!(curl("127.0.0.3", &urls(3)), [200; 3]);
}

/// Waits for eight requests in the log, and checks what a replay finds in it.
fn check(log: &Path, began: f64, format: &str, keys: &[(&str, u64)], arguments: &[&str]) -> Value {
    let lines = || std::fs::read_to_string(log).unwrap_or_default();
    eventually("the log has all requests", || lines().matches("/users/7").count() >= 8);
    // HAProxy also logs the connection by which the test found out that it listens.
    let limit = ["--limit", "1 per 100 days", "--where", "path=/users/*"];
    let report = replay(log, &[&limit[..], arguments].concat());
    assert_eq!(report["formats"][0], format, "{}", lines());
    assert_eq!(report["limits"][0]["requests"], 8, "{report:#}\n{}", lines());
    let worst = report["limits"][0]["worst"].as_array().unwrap();
    let found: Vec<_> = worst
        .iter()
        .map(|key| (key["key"].as_str().unwrap(), key["denied"].as_u64().unwrap()))
        .collect();
    assert_eq!(found, keys);
    // A log with whole seconds may state a time up to a second too early.
    let (first, last) = (report["first"].as_f64().unwrap(), report["last"].as_f64().unwrap());
    assert!(began - 1.1 <= first && first <= last && last <= now() + 0.1, "{began} {first} {last}");
    report
}

const BY_ADDRESS: [(&str, u64); 2] = [("127.0.0.2", 4), ("127.0.0.3", 2)];

#[test]
fn logs_of_nginx_are_read_in_every_form() {
    let (front, began) = (SocketAddr::from(([127, 0, 0, 1], free_port())), now());
    let json = r#"{"time":"$time_iso8601","remote_addr":"$remote_addr","request":"$request","status":$status,"request_time":$request_time}"#;
    let config = format!(
        r#"daemon off; pid nginx.pid; error_log stderr; events {{}}
http {{
    log_format vhost '$host $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"';
    log_format main '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for" $request_time $msec';
    log_format json escape=json '{json}';
    access_log combined.log combined;
    access_log vhost.log vhost;
    access_log main.log main;
    access_log json.log json;
    access_log zipped.log.gz combined gzip=1 flush=10ms;
    server {{ listen {front}; location / {{ return 200 "hello"; }} }}
}}"#
    );
    let mut nginx = nginx(&config);
    let dir = nginx.dir().to_owned();
    requests(front);
    for (name, format) in [
        ("combined.log", "combined"),
        ("vhost.log", "host-combined"),
        ("main.log", "main-timed-msec"),
        ("json.log", "json"),
    ] {
        check(&dir.join(name), began, format, &BY_ADDRESS, &[]);
    }
    // The format is given by a pattern, and the path is the key.
    let pattern = r#"$remote_addr - $remote_user [$time_local] "$request" $status"#;
    let arguments = ["--format", pattern, "--key", "path", "--path", "/users/{id}"];
    check(&dir.join("combined.log"), began, "custom", &[("/users/{id}", 7)], &arguments);
    // The log that nginx compresses is complete once nginx has ended.
    nginx.signal("TERM");
    eventually("nginx ends", || nginx.ended().is_some());
    let report = replay(&dir.join("zipped.log.gz"), &["--limit", "1/day"]);
    assert_eq!((&report["lines"], &report["unreadable"]), (&8.into(), &0.into()));
}

#[test]
fn logs_of_haproxy_are_read_with_their_time_zone() {
    let (front, began) = (SocketAddr::from(([127, 0, 0, 1], free_port())), now());
    for (style, format) in
        [("raw", "haproxy"), ("rfc5424", "haproxy-rfc5424"), ("rfc3164", "haproxy-syslog")]
    {
        let mut haproxy = Process::new("haproxy", "haproxy");
        let config = format!(
            "global\n    log stdout format {style} local0\ndefaults\n    mode http\n    log global\n    option httplog\n    \
             timeout client 5s\n    timeout server 5s\n    timeout connect 1s\nfrontend web\n    bind {front}\n    default_backend app\n\
             backend app\n    server one {}\n",
            backend::start()
        );
        std::fs::write(haproxy.dir().join("haproxy.cfg"), config).unwrap();
        let log = haproxy.dir().join("haproxy.log");
        let output = File::create(&log).unwrap();
        haproxy.start(|command| {
            command.args(["-db", "-f", "haproxy.cfg"]).env("TZ", "Asia/Tokyo").stdout(output);
        });
        requests(front);
        check(&log, began, format, &BY_ADDRESS, &["--time-zone", "Asia/Tokyo"]);
        let hours_off = replay(&log, &["--limit", "1/day"])["first"].as_f64().unwrap() - began;
        assert!((hours_off / 3_600.0).round() == 9.0, "without the zone it is nine hours off");
    }
}

#[test]
fn logs_of_envoy_are_read_as_text_and_as_json() {
    if envoy::skipped("logs_of_envoy_are_read_as_text_and_as_json") {
        return;
    }
    let (front, began) = (SocketAddr::from(([127, 0, 0, 1], free_port())), now());
    let mut proxy = Process::new(envoy::envoy().unwrap().display().to_string(), "python3-venv");
    let dir = proxy.dir().to_owned();
    let file = |name: &str| dir.join(name).display().to_string();
    let config = format!(
        r#"
static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: edge
          use_remote_address: true
          access_log:
          - name: text
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: {text}
          - name: json
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: {json}
              log_format:
                json_format:
                  start_time: "%START_TIME%"
                  method: "%REQ(:METHOD)%"
                  path: "%REQ(:PATH)%"
                  response_code: "%RESPONSE_CODE%"
                  response_flags: "%RESPONSE_FLAGS%"
                  duration: "%DURATION%"
                  downstream_remote_address: "%DOWNSTREAM_REMOTE_ADDRESS%"
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{ prefix: "/" }}
                direct_response: {{ status: 200, body: {{ inline_string: "hello" }} }}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
"#,
        port = front.port(),
        text = file("text.log"),
        json = file("json.log"),
    );
    std::fs::write(dir.join("envoy.yaml"), config).unwrap();
    proxy.start(|command| {
        let number = front.port().to_string();
        command.args(["--concurrency", "1", "--base-id", &number, "-l", "error"]).args([
            "--file-flush-interval-msec",
            "50",
            "-c",
            &file("envoy.yaml"),
        ]);
    });
    requests(front);
    check(&dir.join("text.log"), began, "envoy", &BY_ADDRESS, &[]);
    check(&dir.join("json.log"), began, "json", &BY_ADDRESS, &[]);
}
