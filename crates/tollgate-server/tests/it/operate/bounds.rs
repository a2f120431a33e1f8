//! Clients cannot take all connections, wait without end, or break anything with bytes.

use std::time::Duration;

use super::*;

/// Whether the other side closes the connection, whatever it sends before.
async fn ended(mut io: impl AsyncRead + Unpin) -> bool {
    let mut said = Vec::new();
    // A reset and an orderly close both count.
    tokio::time::timeout(Duration::from_secs(20), io.read_to_end(&mut said)).await.is_ok()
}

#[tokio::test]
async fn connections_are_bounded_and_the_admin_port_is_counted_apart() {
    let server = Server::told("[connections]\nmax = 3\n");
    let mut held = Vec::new();
    for address in [server.resp, server.http, server.grpc] {
        held.push(TcpStream::connect(address).await.unwrap());
    }
    // One answer on each connection shows that the server has accepted it.
    held[0].write_all(b"PING\r\n").await.unwrap();
    held[0].read_exact(&mut [0; 7]).await.unwrap();
    let full = async || {
        let admin = exchange(connect(server.admin, None).await.unwrap(), METRICS).await.unwrap();
        admin.contains("tollgate_connections{port=\"http\"} 1\n")
            && admin.contains("tollgate_connections{port=\"grpc\"} 1\n")
    };
    while !full().await {}
    for address in [server.resp, server.http, server.grpc] {
        assert!(ended(TcpStream::connect(address).await.unwrap()).await);
    }
    let said = exchange(connect(server.admin, None).await.unwrap(), METRICS).await.unwrap();
    assert!(said.contains("tollgate_connections_refused_total{port=\"resp\"} 1\n"), "{said}");
    assert!(server.log().contains("too many connections on all ports"), "{}", server.log());
    drop(held);
    let mut answer = String::new();
    while answer != "answered" {
        answer = ask("http", server.http, None, None).await.unwrap_or_default();
    }
}

const METRICS: &str = "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn an_idle_connection_is_closed_if_idle_timeout_is_set() {
    let server = Server::told("[connections]\nidle_timeout = '200ms'\n");
    for (port, address) in server.ports() {
        assert!(ended(TcpStream::connect(address).await.unwrap()).await, "{port}");
    }
    // An active connection is not idle: twenty commands in a time longer than the timeout. The
    // pauses are much shorter than the timeout even on a slow machine.
    let server = Server::told("[connections]\nidle_timeout = '900ms'\n");
    let mut talks = TcpStream::connect(server.resp).await.unwrap();
    for _ in 0..20 {
        talks.write_all(b"PING\r\n").await.unwrap();
        talks.read_exact(&mut [0; 7]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_unfinished_tls_handshake_is_closed() {
    let certificates = Certificates::new();
    let server = Server::told(&format!(
        "[connections]\nhandshake_timeout = '200ms'\n[tls]\ncertificate = {:?}\nkey = {:?}\n",
        certificates.name("server.crt"),
        certificates.name("server.key")
    ));
    // The first bytes of a TLS ClientHello.
    let half = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc];
    for (port, address) in server.ports() {
        for said in [&b""[..], &half] {
            let mut socket = TcpStream::connect(address).await.unwrap();
            socket.write_all(said).await.unwrap();
            assert!(ended(socket).await, "{port}");
        }
    }
}

#[tokio::test]
async fn a_request_that_arrives_too_slowly_is_given_up() {
    let server = Server::told("[connections]\nrequest_timeout = '300ms'\n");
    let never = "POST /v1/hit HTTP/1.1\r\nx: ".to_owned() + &"x".repeat(10_000);
    let preface = "PRI * HTTP/2.0\r\n\r\nSM";
    for (port, address, slow) in [
        ("http", server.http, &never[..]),
        ("http", server.http, preface),
        ("admin", server.admin, &never),
        ("grpc", server.grpc, preface),
        ("resp", server.resp, "*2\r\n$100\r\nxxxxxxxxxxxx"),
    ] {
        let (reads, mut writes) = TcpStream::connect(address).await.unwrap().into_split();
        let slow = slow.as_bytes().to_vec();
        let trickle = tokio::spawn(async move {
            for byte in slow {
                if writes.write_all(&[byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            // The rest of the request never comes.
            std::future::pending::<()>().await;
        });
        assert!(ended(reads).await, "{port}");
        trickle.abort();
    }
    server.answers(None, None).await;
}

#[tokio::test]
async fn random_bytes_end_a_connection_and_nothing_else() {
    let certificates = Certificates::new();
    let tls = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\n",
        certificates.name("server.crt"),
        certificates.name("server.key")
    );
    // A local generator gives the same bytes in every run.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let begins: [&[u8]; 5] = [
        b"",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        b"POST /v1/hit HTTP/1.1\r\ncontent-length: 200\r\n\r\n",
        b"*3\r\n$8\r\nTHROTTLE\r\n$100\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ];
    for config in ["", &tls] {
        let server = Server::told(config);
        for (_, address) in server.ports() {
            for round in 0..50 {
                let noise: Vec<u8> = (0..200).map(|_| byte()).collect();
                let mut socket = TcpStream::connect(address).await.unwrap();
                let _ = socket.write_all(&[begins[round % begins.len()], &noise].concat()).await;
                let _ = socket.shutdown().await;
                assert!(ended(socket).await);
            }
        }
        let client = |port: &str| {
            let protocols: &[&str] = if port == "grpc" { &["h2"] } else { &[] };
            (!config.is_empty()).then(|| trusting(&certificates, false, protocols))
        };
        for (port, address) in server.ports() {
            let answer = ask(port, address, client(port).as_ref(), None).await;
            assert_eq!(answer.as_deref(), Ok("answered"), "{port}");
        }
        assert!(!server.log().contains("panicked"), "{}", server.log());
    }
}

#[tokio::test]
async fn the_server_survives_a_system_without_free_files() {
    let mut server = Server::told("");
    let id = server.process.id().unwrap().to_string();
    let bound = Command::new("prlimit").args(["--pid", &id, "--nofile=60:60"]).status().unwrap();
    assert!(bound.success());
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(TcpStream::connect(server.resp).await.unwrap());
    }
    eventually("it is in the log", || server.log().contains("a connection could not be accepted"));
    assert!(server.process.ended().is_none());
    drop(held);
    server.answers(None, None).await;
    // One line per second, not one for each attempt.
    assert!(server.log().lines().count() < 40, "{}", server.log());
}

/// Clients could use up all open files, unless the server keeps some for operators.
#[tokio::test]
async fn clients_cannot_use_up_the_files_that_operators_need() {
    let server = Server::with("", &[], |command| {
        let mut bounded = Command::new("prlimit");
        bounded.arg("--nofile=256:256").arg(command.get_program()).args(command.get_args());
        bounded.current_dir(command.get_current_dir().unwrap());
        bounded.stdout(
            std::fs::File::create(command.get_current_dir().unwrap().join("said")).unwrap(),
        );
        bounded
            .stderr(std::fs::File::create(command.get_current_dir().unwrap().join("log")).unwrap());
        *command = bounded;
    });
    let log = server.log();
    assert!(log.contains("[connections] max needs more open files"), "{log}");
    let mut held = Vec::new();
    for _ in 0..400 {
        held.push(TcpStream::connect(server.resp).await.unwrap());
    }
    eventually("those beyond the bound are refused", || {
        server.admin("/metrics").contains("tollgate_connections{port=\"resp\"} 128\n")
    });
    for path in ["/health", "/ready"] {
        let said = server.admin(path);
        assert!(said.starts_with("HTTP/1.1 200"), "{path}: {said}");
    }
    // The configuration is unchanged, so a reload has nothing to report.
    server.put("tollgate.toml", "[limits]\napi = '3/day'\n");
    server.process.signal("HUP");
    server.logged("new rules are in force");
    assert!(server.admin("/metrics").contains("tollgate_config_in_force 1\n"));
}
