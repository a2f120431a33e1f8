//! The log, as programs read it.

use super::*;

#[tokio::test]
async fn a_line_is_an_object_and_tells_the_rule_but_not_the_key() {
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
        let dir = tollgate_testkit::servers::Directory::new();
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
