//! A server that stops answers the requests that it has received.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollgate_testservers::eventually;

use super::Client;
use crate::server::Server;

#[test]
fn a_server_that_stops_answers_every_request_it_has_read() {
    let mut server = Server::start(&[]);
    let (http, asked) = (server.http, AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::new(http);
                loop {
                    let request =
                        b"POST /v1/hit?limit=1000000/second&key=a HTTP/1.1\r\nhost: x\r\n\r\n";
                    if client.send(request).is_err() {
                        return;
                    }
                    // A connection may end between two requests. Half an answer would be an error.
                    let Some(reply) = client.read() else { return };
                    assert_eq!(reply.status, 200);
                    asked.fetch_add(1, Ordering::Relaxed);
                    if reply.header("connection") == Some("close") {
                        return;
                    }
                }
            });
        }
        eventually("there is traffic", || asked.load(Ordering::Relaxed) > 100);
        server.process.signal("TERM");
    });
    assert_eq!(server.code(), Some(0));
}
