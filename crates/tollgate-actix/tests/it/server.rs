//! A server for one test.

use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use actix_web::dev::ServerHandle;
use actix_web::middleware::{Condition, NormalizePath};
use actix_web::web::ServiceConfig;
use actix_web::{App, HttpServer};
use tollgate::{ManualClock, Memory, Timestamp};
use tollgate_actix::RateLimit;
use tollgate_http::Decider;

pub(crate) const WORKERS: usize = 4;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    handle: ServerHandle,
    thread: Option<JoinHandle<()>>,
}

/// Several workers, each with its own app behind clones of one limit.
pub(crate) fn serve<D: Decider>(
    limit: RateLimit<D>,
    routes: impl Fn(&mut ServiceConfig) + Clone + Send + 'static,
) -> Server {
    start("127.0.0.1:0", limit, false, routes)
}

/// The same with paths that are normalised inside of the limit.
pub(crate) fn serve_normalised<D: Decider>(
    limit: RateLimit<D>,
    routes: impl Fn(&mut ServiceConfig) + Clone + Send + 'static,
) -> Server {
    start("127.0.0.1:0", limit, true, routes)
}

pub(crate) fn serve_on<D: Decider>(
    address: &str,
    limit: RateLimit<D>,
    routes: impl Fn(&mut ServiceConfig) + Clone + Send + 'static,
) -> Server {
    start(address, limit, false, routes)
}

fn start<D: Decider>(
    address: &str,
    limit: RateLimit<D>,
    normalised: bool,
    routes: impl Fn(&mut ServiceConfig) + Clone + Send + 'static,
) -> Server {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    let thread = std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let app = move || {
                let normalise = Condition::new(normalised, NormalizePath::trim());
                App::new().wrap(normalise).wrap(limit.clone()).configure(routes.clone())
            };
            let server = HttpServer::new(app).workers(WORKERS).disable_signals();
            let running = server.listen(listener).unwrap().run();
            tell.send(running.handle()).unwrap();
            running.await.unwrap();
        });
    });
    Server { address, handle: told.recv().unwrap(), thread: Some(thread) }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.handle.stop(false));
        let ended = self.thread.take().is_none_or(|thread| thread.join().is_ok());
        assert!(ended || std::thread::panicking(), "the server panicked");
    }
}

/// A store whose time stands still until it is moved.
pub(crate) fn store() -> (Memory<ManualClock>, ManualClock) {
    // 2025-01-01, and a part of a second.
    let clock = ManualClock::new(Timestamp::from_micros(1_735_689_600_400_000));
    (Memory::builder().clock(clock.clone()).build(), clock)
}
