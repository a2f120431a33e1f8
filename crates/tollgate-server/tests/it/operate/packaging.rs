//! The files in `packaging/` fit the binary.

use std::collections::BTreeSet;

use tollgate::shared::Guard;
use tollgate_server::config;
use tollgate_server::settings::Settings;

use super::*;

fn text(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap()
}

/// The names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = |word: &&str| word.starts_with("tollgate_") || word.starts_with("process_");
    words.filter(ours).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_dashboard_uses_existing_metrics() {
    let server = Server::told("");
    server.answers(None, None).await;
    let request = "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let served =
        metrics(&exchange(connect(server.admin, None).await.unwrap(), request).await.unwrap());
    let dashboard: serde_json::Value =
        serde_json::from_str(&text("packaging/grafana/tollgate.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let asked: BTreeSet<_> =
        targets.flat_map(|target| metrics(target["expr"].as_str().unwrap())).collect();
    assert!(asked.len() >= 8, "{asked:?}");
    let unknown: Vec<_> = asked.difference(&served).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_systemd_unit_is_valid() {
    let unit = text("packaging/systemd/tollgate.service");
    assert!(unit.contains("Type=notify\n") && unit.contains("KillSignal=SIGTERM\n"));
    let Ok(version) = Command::new("systemd-analyze").arg("--version").output() else { return };
    assert!(version.status.success());
    // A binary that is not installed is the only problem allowed.
    let path = repository("packaging/systemd/tollgate.service");
    let said = Command::new("systemd-analyze").arg("verify").arg(path).output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let ours = said.lines().filter(|line| line.contains("tollgate.service"));
    let wrong: Vec<_> = ours.filter(|line| !line.contains("is not executable")).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The file can be read, and no problem is reported.
fn is_read(path: &Path) {
    let mut arguments = vec!["serve", "--config", path.to_str().unwrap()];
    for port in ["--http", "--grpc", "--resp", "--admin"] {
        arguments.extend([port, "off"]);
    }
    let (code, _, error) = run(&arguments);
    assert_eq!(code, Some(2), "{}", path.display());
    assert!(error.contains("every port is off"), "{error}");
}

#[test]
fn the_packaged_configuration_is_valid() {
    is_read(&repository("packaging/tollgate.toml"));
}

/// The packaged file with those commented settings enabled that `wanted` picks.
fn with_comments(wanted: impl Fn(&str) -> bool) -> String {
    let is_setting = |line: &str| {
        let name = line.split([' ', '=']).next().unwrap_or_default();
        let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        line.starts_with('[') || bare && line[name.len()..].starts_with(" = ")
    };
    let packaged = text("packaging/tollgate.toml");
    let lines = packaged.lines().map(|line| match line.strip_prefix("# ") {
        Some(setting) if is_setting(setting) && wanted(setting) => setting.to_owned(),
        _ => line.to_owned(),
    });
    lines.map(|line| line + "\n").collect()
}

/// Every setting in the packaged file is the default, unless its comment calls it an example.
#[test]
fn the_packaged_configuration_shows_the_real_defaults() {
    let shown = with_comments(|line| !line.contains("# an example"));
    assert!(shown.contains("\ndeadline = "), "{shown}");
    let mut settings = config::read(&shown, "tollgate.toml").unwrap().settings;
    let (pause, longest) = Guard::DEFAULT_PAUSES;
    let store = &mut settings.store;
    assert_eq!(store.deadline.take(), Some(Guard::DEFAULT_DEADLINE));
    assert_eq!(store.breaker_failures.take(), Some(Guard::DEFAULT_OPEN_AFTER));
    assert_eq!(store.breaker_pause.take(), Some(pause));
    assert_eq!(store.breaker_longest_pause.take(), Some(longest));
    assert_eq!(store.remember_denials.take(), Some(Guard::DEFAULT_DENIALS));
    assert_eq!(store.denials_for.take(), Some(Guard::DEFAULT_DENIALS_FOR));
    assert_eq!(store.charge_local.take(), Some(true));
    // The default prefix of all stores on a shared server.
    assert_eq!(store.prefix.take().as_deref(), Some("tollgate"));
    assert_eq!(settings, Settings::default());
}

#[test]
fn examples_in_the_packaged_configuration_are_valid() {
    let hash = format!("sha256:{}", "0".repeat(64));
    let all = with_comments(|_| true).replace("sha256:…", &hash);
    let all = all.replace("include = [\"rules/*.yaml\"]", "");
    let settings = config::read(&all, "tollgate.toml").unwrap().settings;
    assert!(settings.tls.certificate.is_some() && settings.traces.endpoint.is_some());
    assert!(settings.store.max_keys.is_some() && settings.connections.idle_timeout.is_some());
}

#[test]
fn configurations_in_the_guide_are_valid() {
    let guide = text("guides/operating.md");
    let parts = guide.split("```toml\n").skip(1).filter_map(|part| part.split("```").next());
    let dir = tollgate_testservers::Directory::new();
    let mut count = 0;
    for part in parts {
        let path = dir.path().join("tollgate.toml");
        std::fs::write(&path, part).unwrap();
        is_read(&path);
        count += 1;
    }
    assert!(count >= 5, "{count}");
}
