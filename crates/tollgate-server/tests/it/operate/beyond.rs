//! Ports that other machines can reach.

use super::*;

fn anywhere() -> String {
    format!("0.0.0.0:{}", free_port())
}

#[test]
fn no_reachable_port_is_open_without_allow_anonymous() {
    for port in ["http", "grpc", "resp", "admin"] {
        let mut arguments = vec!["serve".to_owned()];
        for other in ["http", "grpc", "resp", "admin"] {
            let address = if other == port { anywhere() } else { "off".to_owned() };
            arguments.extend([format!("--{other}"), address]);
        }
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let (code, said, error) = run(&arguments);
        assert_eq!((code, &said[..]), (Some(2), ""), "{port}");
        let tokens = if port == "admin" { "[auth.admin_tokens]" } else { "[auth.tokens]" };
        for part in [&format!("{port}: 0.0.0.0:"), tokens, "client_ca", "--allow-anonymous"] {
            assert!(error.contains(part), "{port}: {part}: {error}");
        }
    }
}

#[tokio::test]
async fn tokens_certificates_or_allow_anonymous_open_a_port() {
    let certificates = Certificates::new();
    let hash = format!("sha256:{}", "0".repeat(64));
    let file = |name: &str| certificates.name(name);
    let mutual = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\n",
        file("server.crt"),
        file("server.key"),
        file("ca.crt")
    );
    for (config, warned) in [
        ("[auth]\nallow_anonymous = true\n".to_owned(), "open to every machine"),
        (format!("[auth]\ntokens.a = {hash:?}\n"), "in the clear"),
        (mutual, ""),
    ] {
        let address = anywhere();
        let arguments = ["--http", &address, "--grpc", "off", "--resp", "off", "--admin", "off"];
        let log = Server::with(&config, &arguments, |_| {}).log();
        for warning in ["open to every machine", "in the clear"] {
            assert_eq!(log.contains(warning), warned == warning, "{config}: {log}");
        }
    }
}
