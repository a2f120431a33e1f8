//! The key of a request, by address and by token.

use std::net::SocketAddr;

use actix_web::HttpResponse;
use actix_web::web::{self, ServiceConfig};
use tollgate_actix::RateLimit;
use tollgate_http::{ClientIp, Gate, KeyBy, OnMissing, WrittenIn};

use crate::client::{get, send};
use crate::server::{serve, serve_on, store};

fn ok(app: &mut ServiceConfig) {
    app.default_service(web::to(HttpResponse::Ok));
}

fn statuses<const N: usize>(to: SocketAddr, header: &str, values: [&str; N]) -> [u16; N] {
    values.map(|value| send(to, "GET /", &[&format!("{header}: {value}")]).unwrap().status)
}

#[test]
fn a_client_cannot_change_its_address_by_x_forwarded_for() {
    let (store, _) = store();
    let server = serve(RateLimit::new(store.limiter("1/hour").unwrap()), ok);
    let to = server.address;
    assert_eq!(statuses(to, "x-forwarded-for", ["1.1.1.1", "2.2.2.2", "3.3.3.3"]), [200, 429, 429]);
    assert_eq!(statuses(to, "forwarded", ["for=4.4.4.4"]), [429]);
}

#[test]
fn behind_a_proxy_entries_written_by_the_client_are_ignored() {
    let (store, _) = store();
    let proxies = ClientIp::behind(["127.0.0.0/8", "10.0.0.0/8"]).unwrap();
    let gate = Gate::new(store.limiter("1/hour").unwrap()).key(KeyBy::client_ip(proxies));
    let server = serve(RateLimit::from_gate(gate), ok);
    let seen = statuses(
        server.address,
        "x-forwarded-for",
        ["203.0.113.7", "6.6.6.6, 203.0.113.7", "7.7.7.7, 203.0.113.7, 10.1.1.1", "203.0.113.8"],
    );
    assert_eq!(seen, [200, 429, 429, 200]);
    // The proxy wrote the last line.
    let lines = ["x-forwarded-for: 9.9.9.9", "x-forwarded-for: 203.0.113.8"];
    assert_eq!(send(server.address, "GET /", &lines).unwrap().status, 429);
}

#[test]
fn the_forwarded_header_is_read_if_configured() {
    let (store, _) = store();
    let client = ClientIp::behind_hops(1).written_in(WrittenIn::Forwarded);
    let gate = Gate::new(store.limiter("1/hour").unwrap()).key(KeyBy::client_ip(client));
    let server = serve(RateLimit::from_gate(gate), ok);
    let seen = statuses(
        server.address,
        "forwarded",
        [
            r#"for="[2001:db8::1]:4711""#,
            r#"for=6.6.6.6;x=", for="[2001:db8:0:0:ffff::2]";proto=https"#,
            r#"for="[2001:db8:0:1::1]""#,
        ],
    );
    assert_eq!(seen, [200, 429, 200], "one /64, made-up quotes or not; another");
}

#[test]
fn ipv4_addresses_on_an_ipv6_socket_are_counted_as_ipv4() {
    let (store, _) = store();
    let limiter = store.limiter("2/hour").unwrap();
    let server = serve_on("[::]:0", RateLimit::new(limiter.clone()), ok);
    let port = server.address.port();
    let over = |address: &str| get(SocketAddr::new(address.parse().unwrap(), port), "/").status;
    assert_eq!(over("127.0.0.1"), 200);
    assert_eq!(over("::1"), 200);
    assert_eq!(limiter.peek("127.0.0.1").used(), 1, "not ::ffff:127.0.0.1");
    assert_eq!(limiter.peek("::").used(), 1, "its /64");
    assert_eq!(
        [over("::1"), over("::1"), over("127.0.0.1"), over("127.0.0.1")],
        [200, 429, 200, 429]
    );
}

#[test]
fn a_bearer_token_is_limited_by_its_hash() {
    let (store, _) = store();
    let limiter = store.limiter("1/hour").unwrap();
    let gate = Gate::new(limiter.clone()).key(KeyBy::bearer()).on_missing(OnMissing::Refuse(401));
    let server = serve(RateLimit::from_gate(gate), ok);
    let to = server.address;
    assert_eq!(
        statuses(to, "authorization", ["Bearer abc", "bearer abc", "Bearer abd"]),
        [200, 429, 200]
    );
    assert_eq!(statuses(to, "authorization", ["Basic abc", "Bearer ", ""]), [401, 401, 401]);
    assert_eq!(get(to, "/").status, 401);
    assert_eq!(limiter.peek("abc").used(), 0);
}

#[cfg(unix)]
mod without_peer {
    //! The peer of a Unix socket has no address.

    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;

    use actix_web::{App, HttpServer};

    use super::{Gate, OnMissing, RateLimit, ok, store};
    use crate::client::exchange;

    /// Statuses of three requests over a unix socket.
    fn over_unix_socket(name: &str, on_missing: OnMissing) -> [u16; 3] {
        let path = std::env::temp_dir().join(format!("tollgate-{}-{name}", std::process::id()));
        let (store, _) = store();
        let gate = Gate::new(store.limiter("2/hour").unwrap()).on_missing(on_missing);
        let (tell, told) = channel();
        let socket = path.clone();
        let thread = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let app = move || App::new().wrap(RateLimit::from_gate(gate.clone())).configure(ok);
                let server = HttpServer::new(app).workers(2).disable_signals();
                let running = server.bind_uds(&socket).unwrap().run();
                tell.send(running.handle()).unwrap();
                running.await.unwrap();
            });
        });
        let handle = told.recv().unwrap();
        let statuses = [(); 3]
            .map(|()| exchange(UnixStream::connect(&path).unwrap(), "GET /", &[]).unwrap().status);
        drop(handle.stop(false));
        thread.join().unwrap();
        let _ = std::fs::remove_file(path);
        statuses
    }

    #[test]
    fn requests_without_a_peer_share_one_bucket() {
        assert_eq!(over_unix_socket("share", OnMissing::Share), [200, 200, 429]);
    }

    #[test]
    fn requests_without_a_peer_are_refused_if_configured() {
        assert_eq!(over_unix_socket("refuse", OnMissing::Refuse(403)), [403, 403, 403]);
    }

    #[test]
    fn an_invalid_status_still_refuses() {
        assert_eq!(over_unix_socket("status", OnMissing::Refuse(7)), [429, 429, 429]);
    }
}
