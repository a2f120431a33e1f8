//! How many requests pass.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use actix_web::{HttpResponse, web};
use tollgate_actix::RateLimit;

use crate::client::{get, send};
use crate::server::{WORKERS, serve, store};

#[test]
fn all_workers_count_together_and_refused_requests_never_reach_the_handler() {
    let (store, _) = store();
    let calls = Arc::new(AtomicUsize::new(0));
    let workers = Arc::new(Mutex::new(HashSet::new()));
    let (seen, threads) = (Arc::clone(&calls), Arc::clone(&workers));
    let handler = move || {
        seen.fetch_add(1, Ordering::SeqCst);
        threads.lock().unwrap().insert(std::thread::current().id());
        async { HttpResponse::Ok().finish() }
    };
    let limit = RateLimit::new(store.limiter("100/hour").unwrap());
    let server = serve(limit, move |app| {
        app.route("/", web::get().to(handler.clone()));
    });

    let clients: Vec<_> = (0..8)
        .map(|_| {
            let to = server.address;
            std::thread::spawn(move || (0..25).map(|_| get(to, "/").status).collect::<Vec<_>>())
        })
        .collect();
    let all: Vec<u16> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();

    let count = |status| all.iter().filter(|seen| **seen == status).count();
    assert_eq!((count(200), count(429)), (100, 100));
    assert_eq!(calls.load(Ordering::SeqCst), 100);
    let workers = workers.lock().unwrap().len();
    assert!((2..=WORKERS).contains(&workers), "{workers} workers had requests");
}

#[test]
fn the_cost_of_a_request_is_charged() {
    let (store, _) = store();
    let gate = tollgate_http::Gate::new(store.limiter("10/hour").unwrap())
        .cost(|head| if head.method == "POST" { 4 } else { 1 });
    let server = serve(RateLimit::from_gate(gate), |app| {
        app.default_service(web::to(HttpResponse::Ok));
    });
    let statuses = ["POST /", "POST /", "POST /", "GET /", "GET /", "GET /"]
        .map(|line| send(server.address, line, &[]).unwrap().status);
    assert_eq!(statuses, [200, 200, 429, 200, 200, 429]);
}

#[test]
fn a_handler_that_panics_ends_only_its_connection_and_stays_charged() {
    let (store, _) = store();
    let limit = RateLimit::new(store.limiter("3/hour").unwrap());
    let server = serve(limit, |app| {
        let panics = || async { if true { panic!("planned: this handler panics") } else { "" } };
        app.route("/panics", web::get().to(panics)).route("/", web::get().to(HttpResponse::Ok));
    });
    assert!(send(server.address, "GET /panics", &[]).is_err(), "nothing was answered");
    let left = get(server.address, "/");
    assert_eq!((left.status, left.list("ratelimit")[0].1[0].clone()), (200, ("r".into(), 1)));
    assert!(send(server.address, "GET /panics", &[]).is_err());
    // More panics than workers: each worker still answers.
    for _ in 0..2 * WORKERS {
        assert_eq!(get(server.address, "/").status, 429);
        assert_eq!(get(server.address, "/panics").status, 429);
    }
}
