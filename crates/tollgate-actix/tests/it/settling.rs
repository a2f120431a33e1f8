//! Responses that change the cost of their request.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::mpsc::channel;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::body::{BodySize, MessageBody};
use actix_web::dev::Service as _;
use actix_web::web::{self, Bytes, ServiceConfig};
use actix_web::{HttpResponse, Responder};
use tollgate::{Limiter, ManualClock, Memory};
use tollgate_actix::RateLimit;
use tollgate_http::{Gate, Settle, SettleBy};

use crate::away::Away;
use crate::client::{get, send};
use crate::server::{Server, serve, store};

/// Sends chunks of a kibibyte, each when polled anew; then ends, or fails.
struct Chunks {
    left: usize,
    then: Then,
    turn: bool,
}

#[derive(Clone, Copy)]
enum Then {
    End,
    Fail,
}

impl MessageBody for Chunks {
    type Error = io::Error;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, io::Error>>> {
        self.turn = !self.turn;
        if self.turn {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.left > 0 {
            self.left -= 1;
            return Poll::Ready(Some(Ok(Bytes::from_static(&[b'x'; 1024]))));
        }
        match self.then {
            Then::End => Poll::Ready(None),
            Then::Fail => Poll::Ready(Some(Err(io::Error::other("planned")))),
        }
    }
}

fn streams(app: &mut ServiceConfig) {
    let stream = |left, then| {
        move || async move { HttpResponse::Ok().body(Chunks { left, then, turn: false }) }
    };
    app.route("/whole", web::to(stream(5, Then::End)))
        .route("/broken", web::to(stream(3, Then::Fail)))
        .route("/endless", web::to(stream(usize::MAX, Then::End)))
        .route("/plain", web::to(|| async { "x".repeat(2000) }))
        .route("/empty", web::to(HttpResponse::NoContent));
}

fn by_kibibyte() -> SettleBy {
    SettleBy::body(|response| Settle::Cost(response.bytes.div_ceil(1024)))
}

fn streaming() -> (Server, Limiter<Memory<ManualClock>>) {
    let (store, _) = store();
    let limiter = store.limiter("100/hour").unwrap();
    let gate = Gate::new(limiter.clone()).settle(by_kibibyte());
    (serve(RateLimit::from_gate(gate), streams), limiter)
}

/// The server may notice the end of a body after the client has read it.
fn used_becomes(limiter: &Limiter<Memory<ManualClock>>, used: u64) {
    eventually(|| limiter.peek("127.0.0.1").used() == used);
}

fn eventually(mut comes: impl FnMut() -> bool) {
    let came = (0..60_000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(1));
        comes()
    });
    assert!(came, "it never came");
}

#[test]
fn a_streamed_body_costs_its_bytes() {
    let (server, limiter) = streaming();
    let answer = get(server.address, "/whole");
    assert_eq!((answer.status, answer.body.len()), (200, 5 * 1024));
    used_becomes(&limiter, 5);
    assert_eq!(get(server.address, "/plain").body.len(), 2000);
    used_becomes(&limiter, 7);
}

#[test]
fn a_body_that_is_not_sent_costs_the_minimum() {
    let (store, _) = store();
    let limiter = store.limiter("20/hour").unwrap();
    let settle_by = by_kibibyte().minimum(5);
    let server = serve(RateLimit::from_gate(Gate::new(limiter.clone()).settle(settle_by)), streams);
    let mut used = 0;
    for line in ["GET /empty", "HEAD /plain", "HEAD /plain", "HEAD /plain"] {
        assert_eq!(send(server.address, line, &[]).unwrap().body.len(), 0);
        used += 5;
        used_becomes(&limiter, used);
    }
    assert_eq!(send(server.address, "HEAD /plain", &[]).unwrap().status, 429);

    let (server, limiter) = streaming();
    assert_eq!(send(server.address, "HEAD /plain", &[]).unwrap().status, 200);
    used_becomes(&limiter, 1);
}

#[test]
fn a_body_that_breaks_off_costs_the_bytes_sent() {
    let (server, limiter) = streaming();
    assert!(send(server.address, "GET /broken", &[]).is_err());
    used_becomes(&limiter, 3);
}

#[test]
fn a_body_that_the_client_abandons_costs_the_bytes_sent() {
    let (store, _) = store();
    let (tell, told) = channel();
    let gate =
        Gate::new(store.limiter("100/hour").unwrap()).settle(SettleBy::body(move |response| {
            tell.send(response.bytes).unwrap();
            Settle::AsCharged
        }));
    let server = serve(RateLimit::from_gate(gate), streams);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"GET /endless HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 10_000]).unwrap();
    drop(stream);
    let sent = told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(sent > 9_000, "{sent}");
}

#[test]
fn a_shared_store_settles_at_the_end_of_a_body() {
    let store = Away::new();
    let limiter = tollgate::shared::SharedLimiter::new(&store, "", "100/hour").unwrap();
    let server =
        serve(RateLimit::from_gate(Gate::new(limiter).settle(by_kibibyte().minimum(0))), streams);
    assert_eq!(get(server.address, "/whole").status, 200);
    // The first request is settled some time later, and these cost nothing in the end.
    eventually(|| get(server.address, "/empty").list("ratelimit")[0].1[0].1 == 94);
}

#[test]
fn a_status_can_refund_the_charge() {
    let (store, _) = store();
    let gate = Gate::new(store.limiter("1/hour").unwrap()).settle(SettleBy::head(|response| {
        if response.status == 401 { Settle::AsCharged } else { Settle::Nothing }
    }));
    let server = serve(RateLimit::from_gate(gate), |app| {
        app.route("/good", web::get().to(HttpResponse::Ok))
            .route("/bad", web::get().to(HttpResponse::Unauthorized));
    });
    let status = |path: &str| get(server.address, path).status;
    assert_eq!(["/good", "/good", "/good", "/bad", "/good"].map(status), [200, 200, 200, 401, 429]);
}

#[test]
fn a_header_of_the_handler_can_charge_more_and_less() {
    let (store, _) = store();
    let limiter = store.limiter("10/hour").unwrap();
    let gate = Gate::new(limiter.clone()).cost(|_| 2).settle(SettleBy::header("X-Cost"));
    let server = serve(RateLimit::from_gate(gate), |app| {
        let cost = |cost: web::Path<String>| async move {
            HttpResponse::Ok().insert_header(("x-cost", cost.into_inner())).finish()
        };
        app.route("/{cost}", web::get().to(cost));
    });
    let mut used = 0;
    for (cost, units) in [("1", 1), ("5", 5), ("no-number", 2)] {
        assert_eq!(get(server.address, &format!("/{cost}")).status, 200);
        used += units;
        assert_eq!(limiter.peek("127.0.0.1").used(), used, "{cost}");
    }
}

#[test]
fn an_error_of_an_inner_service_is_settled_and_gets_headers() {
    let (store, _) = store();
    let limiter = store.limiter("3/hour").unwrap();
    let gate = Gate::new(limiter.clone()).settle(SettleBy::head(|response| {
        if response.status == 404 { Settle::Nothing } else { Settle::AsCharged }
    }));
    let server = serve(RateLimit::from_gate(gate), |app| {
        let fails = web::scope("").wrap_fn(|request, service| {
            let error = match request.path() {
                "/missing" => Some(actix_web::error::ErrorNotFound("missing")),
                "/conflict" => Some(actix_web::error::ErrorConflict("conflict")),
                _ => None,
            };
            let answered = service.call(request);
            async move { error.map_or(answered.await, Err) }
        });
        app.service(fails.default_service(web::to(handler)));
    });
    async fn handler() -> impl Responder {
        poll_fn(|_| Poll::Ready("ok")).await
    }
    let missing = get(server.address, "/missing");
    assert_eq!((missing.status, missing.text().as_str()), (404, "missing"));
    assert_eq!(missing.list("ratelimit").len(), 1);
    assert_eq!(limiter.peek("127.0.0.1").used(), 0);
    assert_eq!(get(server.address, "/conflict").status, 409);
    assert_eq!(get(server.address, "/").text(), "ok");
    assert_eq!(limiter.peek("127.0.0.1").used(), 2);
}
