//! A request in the service alone, without sockets: its instructions, counted by valgrind, and its time.

use super::COMMAND;
use super::contenders::{App, Contender};
use crate::instructions::collected;
use crate::paired::in_the_middle;
use crate::{Outcome, progress};
use axum::Extension;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use quanta::Instant;
use std::net::SocketAddr;
use std::pin::pin;
use std::process::Command;
use std::task::{Context, Poll, Waker};
use tower::Layer;
use tower_service::Service;

const REQUESTS: usize = 2_000;

/// Instructions of one request; `None` if valgrind cannot be started.
pub(crate) fn count(contender: &Contender) -> Outcome<Option<f64>> {
    let all = collected("counted_requests", &[COMMAND, "count", contender.id])?;
    Ok(all.map(|all| all / REQUESTS as f64))
}

/// The child's side, under valgrind.
pub(crate) fn run(contender: &Contender) -> Outcome<()> {
    let mut calls = calls(contender)?;
    // The first ones make entries, tables and caches.
    calls(10)?;
    calls(REQUESTS)
}

/// Nanoseconds of one request of each, more than one of the first takes: in the middle of several processes, because where things lie in the memory of one makes
/// it faster or slower for as long as it lives.
pub(crate) fn added(contenders: &[Contender]) -> Outcome<Vec<f64>> {
    const PROCESSES: usize = 15;
    let mut added = vec![Vec::new(); contenders.len()];
    for process in 1..=PROCESSES {
        progress(&format!("time of a call, process {process} of {PROCESSES}"));
        let child = Command::new(std::env::current_exe()?).args([COMMAND, "times"]).output()?;
        let said = String::from_utf8_lossy(&child.stdout);
        let times: Vec<f64> = said.lines().filter_map(|line| line.parse().ok()).collect();
        if times.len() != contenders.len() {
            return Err(format!("times of calls: a process said `{said}`").into());
        }
        for (added, time) in added.iter_mut().zip(&times) {
            added.push(time - times[0]);
        }
    }
    Ok(added.into_iter().filter_map(in_the_middle).collect())
}

/// The child's side: nanoseconds of one request of each, in turns of less than a millisecond. The least of many is one that nobody disturbed.
pub(crate) fn print_times(contenders: &[Contender]) -> Outcome<()> {
    const REQUESTS: usize = 400;
    const TURNS: usize = 300;
    let mut all: Vec<Calls> = contenders.iter().map(calls).collect::<Outcome<_>>()?;
    let mut least = vec![f64::MAX; all.len()];
    for _ in 0..TURNS {
        for (calls, least) in all.iter_mut().zip(&mut least) {
            let start = Instant::now();
            calls(REQUESTS)?;
            *least = least.min(start.elapsed().as_secs_f64() * 1e9 / REQUESTS as f64);
        }
    }
    for nanos in least {
        println!("{nanos}");
    }
    Ok(())
}

/// Makes so many requests.
type Calls = Box<dyn FnMut(usize) -> Outcome<()>>;

fn calls(contender: &Contender) -> Outcome<Calls> {
    let peer = SocketAddr::from(([192, 0, 2, 1], 1234));
    let with_peer = Extension(ConnectInfo(peer));
    Ok(match (contender.app)()? {
        App::Inside(app) => boxed(with_peer.layer(app)),
        App::Constant(app) => boxed(with_peer.layer(app)),
        App::Tollgate(app) => boxed(app.connection(peer)),
        App::Governor(app) => boxed(with_peer.layer(app)),
        App::GovernorTells(app) => boxed(with_peer.layer(app)),
    })
}

fn boxed<S: Service<Request, Response = Response> + 'static>(mut app: S) -> Calls {
    Box::new(move |requests| match requests {
        REQUESTS => counted_requests(&mut app),
        _ => counted(&mut app, requests),
    })
}

/// The function valgrind looks for by name: it counts only in here.
#[inline(never)]
fn counted_requests<S: Service<Request, Response = Response>>(app: &mut S) -> Outcome<()> {
    counted(app, REQUESTS)
}

#[inline(always)]
fn counted<S: Service<Request, Response = Response>>(app: &mut S, requests: usize) -> Outcome<()> {
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
    Ok(())
}
