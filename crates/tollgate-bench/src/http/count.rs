//! Instructions of a request in the service alone, without sockets, counted by valgrind.

use super::COMMAND;
use super::contenders::{App, Contender};
use crate::{Outcome, progress};
use axum::Extension;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use std::net::SocketAddr;
use std::pin::pin;
use std::process::Command;
use std::task::{Context, Poll, Waker};
use tower::Layer;
use tower_service::Service;

const REQUESTS: usize = 2_000;

/// Instructions of one request; `None` if valgrind cannot be started.
pub(crate) fn count(contender: &Contender) -> Outcome<Option<f64>> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        progress("instructions: skipped, valgrind cannot be started (apt install valgrind)");
        return Ok(None);
    }
    progress(&format!("instructions: {}", contender.id));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*counted_requests*")
        .arg(std::env::current_exe()?)
        .args([COMMAND, "count", contender.id])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let total: f64 = said
        .lines()
        .find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
        .ok_or_else(|| format!("valgrind on {}: printed no `Collected :`: {said}", contender.id))?;
    Ok(Some(total / REQUESTS as f64))
}

/// The child's side, under valgrind.
pub(crate) fn run(contender: &Contender) -> Outcome<()> {
    let peer = SocketAddr::from(([192, 0, 2, 1], 1234));
    let with_peer = Extension(ConnectInfo(peer));
    let passed = match (contender.app)()? {
        App::Inside(app) => warm(with_peer.layer(app)),
        App::Constant(app) => warm(with_peer.layer(app)),
        App::Tollgate(app) => warm(app.connection(peer)),
        App::Governor(app) => warm(with_peer.layer(app)),
        App::GovernorTells(app) => warm(with_peer.layer(app)),
    };
    println!("passed {}", passed?);
    Ok(())
}

fn warm<S: Service<Request, Response = Response>>(mut app: S) -> Outcome<usize> {
    // The first ones make entries, tables and caches.
    counted(&mut app, 10)?;
    counted_requests(&mut app)
}

/// The function valgrind looks for by name: it counts only in here.
#[inline(never)]
fn counted_requests<S: Service<Request, Response = Response>>(app: &mut S) -> Outcome<usize> {
    counted(app, REQUESTS)
}

#[inline(always)]
fn counted<S: Service<Request, Response = Response>>(
    app: &mut S,
    requests: usize,
) -> Outcome<usize> {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..requests {
        let request = Request::new(Body::empty());
        let Poll::Ready(Ok(response)) = pin!(app.call(request)).poll(&mut context) else {
            return Err("a hello world that waits".into());
        };
        if !response.status().is_success() {
            return Err(format!("status {}", response.status()).into());
        }
    }
    Ok(requests)
}
