//! The log, as programs read it.

use super::*;

#[tokio::test]
async fn a_json_line_names_the_rule_but_not_the_key() {
    let config = "[limits.login]\nlimit = '1/day'\n[log]\nlevel = 'error'\n";
    let arguments = ["--log-format", "json", "--log-level", "debug"];
    let mut server = Server::with(config, &arguments, |_| {});
    let request =
        "POST /v1/hit?limit=login&key=somebody HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let statuses = ["200", "429", "429", "429"];
    for status in statuses {
        let said = exchange(connect(server.http, None).await.unwrap(), request).await.unwrap();
        assert_eq!(said.split(' ').nth(1), Some(status), "{said}");
    }
    server.process.signal("TERM");
    assert_eq!(server.code(), Some(0));
    let log = server.log();
    assert!(!log.contains("somebody"), "{log}");
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let lines: Vec<_> = lines.filter(|line| line["message"] == "denied").collect();
    assert!(!lines.is_empty(), "{log}");
    assert_eq!((&lines[0]["rule"], &lines[0]["level"]), (&"login".into(), &"DEBUG".into()));
}

#[test]
fn a_wrong_level_is_refused_by_serve_and_by_check() {
    for level in ["inof", "loud=very", "info,"] {
        let (code, _, error) = run(&["serve", "--log-level", level]);
        assert_eq!(code, Some(2));
        assert!(error.contains(&format!("{level:?}: expected one of off, error")), "{error}");
        let dir = tollgate_testservers::Directory::new();
        let path = dir.path().join("tollgate.toml");
        std::fs::write(&path, format!("[log]\nlevel = {level:?}\n")).unwrap();
        for command in [&["check"][..], &["serve", "--config"]] {
            let (code, _, error) = run(&[command, &[path.to_str().unwrap()]].concat());
            assert_eq!(code, Some(2), "{level}");
            let expected = format!("tollgate.toml:2:10: log: level: log level {level:?}");
            assert!(error.contains(&expected), "{error}");
        }
    }
}

/// A domain and a namespace may have the same name, and contain rules of the same name.
#[tokio::test]
async fn a_domain_and_a_namespace_of_one_name_are_counted_apart() {
    let config = "[namespaces.shop.limits]\nuser = '9/day'\n\
                  [[domains.shop.descriptors]]\nkey = 'user'\nlimit = '9/day'\n";
    let server = Server::told(config);
    assert_eq!(ask("grpc", server.grpc, None, None).await.as_deref(), Ok("answered"));
    let request = "POST /v1/hit?limit=user&key=somebody&namespace=shop HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    for _ in 0..2 {
        let said = exchange(connect(server.http, None).await.unwrap(), request).await.unwrap();
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    }
    let metrics = server.admin("/metrics");
    for (place, hits) in [("namespace=\"\",domain=\"shop\"", 1), ("namespace=\"shop\"", 2)] {
        let line =
            format!("tollgate_hits_total{{{place},rule=\"user\",verdict=\"allowed\"}} {hits}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    let (rules, keys) = (server.admin("/rules"), server.admin("/keys"));
    assert!(rules.contains("\"domain\":\"shop\"") && keys.contains("\"domain\":\"shop\""));
}
