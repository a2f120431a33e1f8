//! TLS on every port, with and without client certificates, which are replaced while the server
//! runs.

use tollgate::{Clock as _, SystemClock};

use super::*;

fn config(certificates: &Certificates, mutual: bool) -> String {
    let file = |name: &str| certificates.name(name);
    let mut config =
        format!("[tls]\ncertificate = {:?}\nkey = {:?}\n", file("server.crt"), file("server.key"));
    if mutual {
        config += &format!("client_ca = {:?}\n", file("ca.crt"));
    }
    config
}

fn protocols(port: &str) -> &'static [&'static str] {
    match port {
        "grpc" => &["h2"],
        "resp" => &[],
        _ => &["http/1.1"],
    }
}

/// The result of one request by a client that trusts these certificates.
async fn asked(
    (port, address): (&str, SocketAddr),
    certificates: &Certificates,
    shows: bool,
) -> Result<String, String> {
    let client = trusting(certificates, shows, protocols(port));
    ask(port, address, Some(&client), None).await
}

#[tokio::test]
async fn every_port_speaks_tls_and_nothing_else() {
    let (certificates, strangers) = (Certificates::new(), Certificates::new());
    let server = Server::told(&config(&certificates, false));
    for port in server.ports() {
        let answer = asked(port, &certificates, false).await;
        assert_eq!(answer.as_deref(), Ok("answered"), "{port:?}");
        let clear = ask(port.0, port.1, None, None).await;
        assert!(!matches!(clear.as_deref(), Ok("answered" | "unauthorized")), "{clear:?}");
        let other = asked(port, &strangers, false).await.unwrap_err();
        assert!(other.contains("invalid peer certificate"), "{other}");
    }
}

#[tokio::test]
async fn with_an_authority_of_clients_only_its_clients_are_answered() {
    let (certificates, strangers) = (Certificates::new(), Certificates::new());
    let server = Server::told(&config(&certificates, true));
    // Clients with a certificate of another authority, which trust the server.
    std::fs::copy(certificates.file("ca.crt"), strangers.file("ca.crt")).unwrap();
    for port in server.ports() {
        let answer = asked(port, &certificates, true).await;
        assert_eq!(answer.as_deref(), Ok("answered"), "{port:?}");
        for (who, shows) in [(&certificates, false), (&strangers, true)] {
            let refused = asked(port, who, shows).await;
            assert!(!matches!(refused.as_deref(), Ok("answered")), "{port:?}: {refused:?}");
        }
    }
    eventually("it is in the log", || server.log().contains("a connection was refused"));
}

#[tokio::test]
async fn a_port_can_turn_tls_off_or_have_its_own_authority() {
    let certificates = Certificates::new();
    let mut text = config(&certificates, false);
    text += &format!(
        "[tls.admin]\noff = true\n[tls.resp]\nclient_ca = {:?}\n",
        certificates.name("ca.crt")
    );
    let server = Server::told(&text);
    assert_eq!(ask("admin", server.admin, None, None).await.as_deref(), Ok("answered"));
    assert_eq!(asked(("http", server.http), &certificates, false).await.as_deref(), Ok("answered"));
    let refused = asked(("resp", server.resp), &certificates, false).await;
    assert!(!matches!(refused.as_deref(), Ok("answered")), "{refused:?}");
    assert_eq!(asked(("resp", server.resp), &certificates, true).await.as_deref(), Ok("answered"));
}

#[tokio::test]
async fn alpn_offers_http_2_and_http_1() {
    let certificates = Certificates::new();
    let server = Server::told(&config(&certificates, false));
    for (address, offers, chosen) in [
        (server.http, &["h2", "http/1.1"][..], Some(&b"h2"[..])),
        (server.http, &["http/1.1"], Some(b"http/1.1")),
        (server.grpc, &["h2", "http/1.1"], Some(b"h2")),
        (server.resp, &["h2"], None),
    ] {
        let socket = TcpStream::connect(address).await.unwrap();
        let client = tokio_rustls::TlsConnector::from(trusting(&certificates, false, offers));
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = client.connect(name, socket).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen, "{offers:?}");
    }
}

#[tokio::test]
async fn a_new_certificate_is_loaded_and_a_broken_one_is_not() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let server = Server::told(&config(&certificates, false));
    let mut open = connect(server.resp, Some(&trusting(&certificates, false, &[]))).await.unwrap();
    let replace = |name: &str| {
        // Renamed in one step, as tools that replace certificates do.
        std::fs::copy(others.file(name), certificates.file("new")).unwrap();
        std::fs::rename(certificates.file("new"), certificates.file(name)).unwrap();
    };

    // A certificate without its key: the old one stays, and the log says why.
    replace("server.crt");
    server.process.signal("HUP");
    eventually("it complains", || server.log().contains("the old one stays"));
    assert!(server.log().contains("server.key"), "{}", server.log());
    for port in server.ports() {
        assert_eq!(asked(port, &certificates, false).await.as_deref(), Ok("answered"));
    }

    replace("server.key");
    server.process.signal("HUP");
    eventually("it takes it", || server.log().matches("loaded a new certificate").count() == 4);
    for port in server.ports() {
        assert_eq!(asked(port, &others, false).await.as_deref(), Ok("answered"), "{port:?}");
        assert!(asked(port, &certificates, false).await.is_err());
    }

    // Open connections stay open.
    open.write_all(b"PING\r\n").await.unwrap();
    let mut said = [0; 7];
    open.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"+PONG\r\n");
}

#[tokio::test]
async fn a_new_certificate_is_loaded_without_a_signal() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let server = Server::told(&config(&certificates, false));
    for name in ["server.crt", "server.key"] {
        std::fs::copy(others.file(name), certificates.file(name)).unwrap();
    }
    eventually("it takes it", || server.log().matches("loaded a new certificate").count() == 4);
    let answer = asked(("http", server.http), &others, false).await;
    assert_eq!(answer.as_deref(), Ok("answered"));
}

#[test]
fn the_log_warns_before_certificates_expire() {
    const NAME: &str = "tollgate_certificate_expiry_timestamp_seconds";
    let now = SystemClock::new().now().as_micros() / 1_000_000;
    let day = 24 * 60 * 60;
    let (soon, past) = (now + 10 * day + 3_600, now - day);
    let certificates = Certificates::expiring_at(soon);
    let server = Server::told(&(config(&certificates, false) + "[tls.admin]\noff = true\n"));
    let lines = |level: &str, text: &str| {
        let log = server.log();
        let lines = log.lines().filter(|line| line.contains(level) && line.contains(text));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let expiries = || {
        let metrics = server.admin("/metrics");
        let lines = metrics.lines().filter(|line| line.starts_with(NAME));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let at = |seconds: u64| {
        ["http", "grpc", "resp"].map(|port| format!("{NAME}{{port=\"{port}\"}} {seconds}"))
    };
    let replace = |others: &Certificates| {
        for name in ["server.crt", "server.key"] {
            std::fs::copy(others.file(name), certificates.file(name)).unwrap();
        }
        server.process.signal("HUP");
    };

    assert_eq!(expiries(), at(soon));
    let expires = "the certificate expires in 10 days, at ";
    eventually("it warns at the start", || lines(" WARN ", expires).len() == 3);
    let warnings = lines(" WARN ", expires);
    assert!(warnings[0].contains("server.crt"), "{warnings:?}");
    server.process.signal("HUP");
    eventually("it warns on a reload", || lines(" WARN ", expires).len() == 6);

    replace(&Certificates::expiring_at(past));
    let expired = "the certificate expired at ";
    eventually("it has expired", || lines(" ERROR ", expired).len() >= 3);
    assert_eq!(expiries(), at(past));

    replace(&Certificates::new());
    eventually("it is renewed", || {
        expiries().iter().all(|line| {
            let expiry = line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
            expiry > now + 365 * day
        })
    });
    assert_eq!(expiries().len(), 3);
}

#[tokio::test]
async fn answers_larger_than_a_socket_buffer_arrive_whole() {
    let certificates = Certificates::new();
    let server = Server::told(&config(&certificates, false));
    let mut io = connect(server.resp, Some(&trusting(&certificates, false, &[]))).await.unwrap();
    let text = "x".repeat(30_000);
    let echo = format!("*2\r\n$4\r\nECHO\r\n${}\r\n{text}\r\n", text.len());
    let answer = format!("${}\r\n{text}\r\n", text.len());
    let times = 100;
    io.write_all(echo.repeat(times).as_bytes()).await.unwrap();
    io.flush().await.unwrap();
    let mut said = vec![0; answer.len() * times];
    io.read_exact(&mut said).await.unwrap();
    assert!(said == answer.repeat(times).as_bytes());
}

#[test]
fn invalid_files_are_named() {
    let certificates = Certificates::new();
    let file = |name: &str| certificates.name(name);
    let run = |certificate: &str, key: &str| {
        run(&["serve", "--tls-certificate", &file(certificate), "--tls-key", &file(key)])
    };
    for (certificate, key, expected) in [
        ("nobody.crt", "server.key", "nobody.crt: No such file"),
        ("server.crt", "client.key", "client.key"),
        ("server.key", "server.key", "no certificate in it"),
    ] {
        let (code, _, error) = run(certificate, key);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains("tls: http: ") && error.contains(expected), "{error}");
    }
}
