//! Instructions of a request in the service alone, without sockets, counted by valgrind.

use super::COMMAND;
use super::contenders::Contender;
use crate::{Outcome, progress};
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use std::net::SocketAddr;
use std::pin::pin;
use std::process::Command;
use std::task::{Context, Poll, Waker};
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
    let mut app = (contender.app)()?;
    // The first ones make entries, tables and caches.
    counted(&mut app, 10)?;
    println!("passed {}", counted_requests(&mut app)?);
    Ok(())
}

/// The function valgrind looks for by name: it counts only in here.
#[inline(never)]
fn counted_requests(app: &mut Router) -> Outcome<usize> {
    counted(app, REQUESTS)
}

#[inline(always)]
fn counted(app: &mut Router, requests: usize) -> Outcome<usize> {
    let peer = ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 1234)));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..requests {
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(peer);
        let Poll::Ready(Ok(response)) = pin!(app.call(request)).poll(&mut context) else {
            return Err("a hello world that waits".into());
        };
        if !response.status().is_success() {
            return Err(format!("status {}", response.status()).into());
        }
    }
    Ok(requests)
}
