//! What is in `packaging/` fits the binary.

use std::collections::BTreeSet;

use super::*;

fn text(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap()
}

/// Names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = |word: &&str| word.starts_with("tollgate_") || word.starts_with("process_");
    words.filter(ours).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_dashboard_asks_for_metrics_that_there_are() {
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
fn systemd_understands_the_unit() {
    let unit = text("packaging/systemd/tollgate.service");
    assert!(unit.contains("Type=notify\n") && unit.contains("KillSignal=SIGTERM\n"));
    let Ok(version) = Command::new("systemd-analyze").arg("--version").output() else { return };
    assert!(version.status.success());
    // Where the binary is not installed that is all it may complain of.
    let path = repository("packaging/systemd/tollgate.service");
    let said = Command::new("systemd-analyze").arg("verify").arg(path).output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let ours = said.lines().filter(|line| line.contains("tollgate.service"));
    let wrong: Vec<_> = ours.filter(|line| !line.contains("is not executable")).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// It is read, and then there is nothing to do.
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
fn the_configuration_that_is_packaged_is_read() {
    is_read(&repository("packaging/tollgate.toml"));
}

#[test]
fn what_the_guide_says_is_read() {
    let guide = text("guides/operating.md");
    let parts = guide.split("```toml\n").skip(1).filter_map(|part| part.split("```").next());
    let dir = tollgate_testkit::servers::Directory::new();
    let mut count = 0;
    for part in parts {
        let path = dir.path().join("tollgate.toml");
        std::fs::write(&path, part).unwrap();
        is_read(&path);
        count += 1;
    }
    assert!(count >= 5, "{count}");
}
