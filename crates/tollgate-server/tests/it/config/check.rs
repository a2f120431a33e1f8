//! `tollgate check`, and the files that come with the server.

use std::path::Path;
use std::process::{Command, Output};

use tollgate::{Clock as _, SystemClock};
use tollgate_testservers::{Certificates, Directory};

fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate")).arg("check").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn valid_files_are_listed_and_invalid_ones_set_the_exit_code() {
    let dir = Directory::new();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = file(
        "good.toml",
        "[limits.login]\nlimit = '5/minute; 100/day'\nshadow = true\nexempt = ['admin']",
    );
    let bad =
        file("bad.yaml", "domain: d\ndescriptors:\n  - key: a\n    limit: 5/minit\n  - ky: b\n");
    let store = file(
        "store.toml",
        "store.url = 'atomic:'\nlimits.a = '5/minute moving-window'\nlimits.b = '5/minute'\n[[domains.d.descriptors]]\nkey = 'k'\nlimit = '1/s moving-window'",
    );

    let output = check(&[&good]);
    assert!(output.status.success());
    let said = text(&output.stdout);
    assert!(
        said.contains(
            "good.toml: good, 1 rule\n  login  5/minute; 100/day  shadow, admin: exempt\n"
        ),
        "{said}"
    );

    let output = check(&[&bad, &good]);
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    for expected in [
        "bad.yaml:4:14: descriptors[0].limit: at 2",
        "bad.yaml:5:5: descriptors[1]: a descriptor needs a key",
        "bad.yaml:5:5: descriptors[1].ky: unknown",
    ] {
        assert!(errors.contains(expected), "{expected} in {errors}");
    }
    assert!(text(&output.stdout).contains("good.toml: good"), "the others are still looked at");

    let output = check(&[&store]);
    assert_eq!(output.status.code(), Some(2), "what the store would refuse is refused");
    let errors = text(&output.stderr);
    for expected in
        ["store.toml:2:13: limits.a: ", "store.toml:6:10: domains.d.descriptors[0].limit: "]
    {
        assert!(errors.contains(expected), "{expected} in {errors}");
    }
    assert_eq!(errors.lines().count(), 3, "{errors}");

    let output = check(&["--json", &bad, &good]);
    assert_eq!(output.status.code(), Some(2));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json[0]["ok"], &json[1]["ok"]), (&false.into(), &true.into()));
    assert_eq!(json[0]["problems"][0]["line"], 4);
    assert_eq!(json[1]["rules"][0]["limit"], "5/minute; 100/day");
}

#[test]
fn a_domain_may_be_in_several_files_of_a_directory_if_the_command_says_so() {
    let dir = Directory::new();
    for key in ["a", "b"] {
        let text = format!("domain: shop\ndescriptors: [{{key: {key}, limit: 1/s}}]\n");
        std::fs::write(dir.path().join(format!("{key}.yaml")), text).unwrap();
    }
    let path = dir.path().to_str().unwrap();
    let output = check(&[path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--merge-domains allows it"));
    let output = check(&["--merge-domains", path]);
    assert!(text(&output.stdout).contains("good, 2 rules"), "{}", text(&output.stderr));
}

/// Every file in the repository that shows how to configure the server.
#[test]
fn example_configurations_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    for name in ["tollgate.toml", "rules/shop.yaml"] {
        let output = check(&[root.join(name).to_str().unwrap()]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

/// Every block of the guide that shows a configuration file.
#[test]
fn configuration_files_in_the_guide_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_to_string(root.join("guides/server.md")).unwrap();
    let mut blocks = 0;
    for block in guide.split("\n```").skip(1).collect::<Vec<_>>().chunks(2) {
        let [block, ..] = block else { continue };
        let Some((language @ ("toml" | "yaml"), text)) = block.split_once('\n') else { continue };
        blocks += 1;
        if let Err(problems) = tollgate_server::config::read(text, &format!("guide.{language}")) {
            panic!("{problems}\nin\n{text}");
        }
    }
    assert_eq!(blocks, 5, "the guide has other blocks now");
}

#[test]
fn check_warns_of_certificates_that_expire_soon() {
    let now = SystemClock::new().now().as_micros() / 1_000_000;
    let day = 24 * 60 * 60;
    let dir = Directory::new();
    let config = dir.path().join("tollgate.toml");
    let path = config.to_str().unwrap();
    for (certificates, expected) in [
        (Certificates::expiring_at(now + 10 * day + 3_600), Some("expires in 10 days, at ")),
        (Certificates::expiring_at(now - day), Some("expired at ")),
        (Certificates::new(), None),
    ] {
        let file = certificates.name("server.crt");
        // The key may be given elsewhere.
        std::fs::write(&config, format!("[tls]\ncertificate = {file:?}\n")).unwrap();
        let expected = expected.map(|text| format!("{file}: the certificate {text}"));
        let output = check(&[path]);
        assert!(output.status.success(), "a warning is no error");
        let warnings = text(&output.stderr);
        assert_eq!(warnings.lines().count(), usize::from(expected.is_some()), "{warnings}");
        assert!(warnings.contains(expected.as_deref().unwrap_or_default()), "{warnings}");
        let json: serde_json::Value =
            serde_json::from_slice(&check(&["--json", path]).stdout).unwrap();
        let warnings = json[0]["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), usize::from(expected.is_some()), "{json}");
    }

    std::fs::write(&config, "tls.certificate = 'nowhere.crt'\n").unwrap();
    let output = check(&[path]);
    assert!(output.status.success(), "it may be on another machine");
    let warnings = text(&output.stderr);
    assert!(warnings.contains("nowhere.crt: No such file"), "{warnings}");
}
