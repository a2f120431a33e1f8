//! A request in a server without sockets, with unchanged axum and hyper: its instructions, counted
//! by valgrind, and its time.

use super::COMMAND;
use super::contenders::Contender;
use super::line::{Client, lines};
use super::serve::runtime;
use crate::instructions::collected;
use crate::paired::in_the_middle;
use crate::{Outcome, progress};
use quanta::Instant;
use std::process::Command;
use tokio::runtime::Runtime;

/// Requests of a turn.
const REQUESTS: usize = 640;

/// Instructions of one request; `None` if valgrind cannot be started.
pub(crate) fn count(contender: &Contender) -> Outcome<Option<f64>> {
    let all = collected("counted_requests", &[COMMAND, "count", contender.id])?;
    Ok(all.map(|all| all / REQUESTS as f64))
}

/// The child's side, under valgrind.
pub(crate) fn run(contender: &Contender) -> Outcome<()> {
    counted_requests(&Alone::new(contender)?)
}

/// Nanoseconds that one request of each contender takes more than one of the first. The median of
/// several processes, because the memory layout of a process makes it faster or slower for as long
/// as it lives.
pub(crate) fn added(contenders: &[Contender]) -> Outcome<Vec<f64>> {
    const PROCESSES: usize = 15;
    let mut added = vec![Vec::new(); contenders.len()];
    for process in 1..=PROCESSES {
        progress(&format!("time of a request, process {process} of {PROCESSES}"));
        let child = Command::new(std::env::current_exe()?).args([COMMAND, "times"]).output()?;
        let said = String::from_utf8_lossy(&child.stdout);
        let times: Vec<f64> = said.lines().filter_map(|line| line.parse().ok()).collect();
        if times.len() != contenders.len() {
            return Err(format!("times of requests: a process said `{said}`").into());
        }
        for (added, time) in added.iter_mut().zip(&times) {
            added.push(time - times[0]);
        }
    }
    Ok(added.into_iter().filter_map(in_the_middle).collect())
}

/// The child's side: nanoseconds of one request of each contender, in turns of less than a
/// millisecond. The least of many turns is an undisturbed one.
pub(crate) fn print_times(contenders: &[Contender]) -> Outcome<()> {
    const TURNS: usize = 300;
    let all: Vec<Alone> = contenders.iter().map(Alone::new).collect::<Outcome<_>>()?;
    let mut least = vec![f64::MAX; all.len()];
    for _ in 0..TURNS {
        for (alone, least) in all.iter().zip(&mut least) {
            let start = Instant::now();
            alone.ask(REQUESTS)?;
            *least = least.min(start.elapsed().as_secs_f64() * 1e9 / REQUESTS as f64);
        }
    }
    for nanos in least {
        println!("{nanos}");
    }
    Ok(())
}

/// A server whose connections are in memory, and its client.
struct Alone {
    runtime: Runtime,
    client: Client,
}

impl Alone {
    fn new(contender: &Contender) -> Outcome<Alone> {
        let runtime = runtime()?;
        let (client, lines) = lines();
        // Created here, because an error inside a task would not be seen.
        let app = (contender.app)()?;
        runtime.spawn(app.serve(lines));
        let alone = Alone { runtime, client };
        // The first requests create connections, entries, tables and caches.
        alone.ask(10 * REQUESTS)?;
        Ok(alone)
    }

    fn ask(&self, requests: usize) -> Outcome<()> {
        match self.runtime.block_on(self.client.ask(requests)) {
            true => Ok(()),
            false => Err("a request failed that all limits let pass".into()),
        }
    }
}

/// The function valgrind looks for by name: it counts only in here.
#[inline(never)]
fn counted_requests(alone: &Alone) -> Outcome<()> {
    alone.ask(REQUESTS)
}

#[cfg(test)]
mod tests {
    use super::super::contenders::{ALL, App};
    use super::*;
    use axum::Router;

    #[test]
    fn all_contenders_answer_without_sockets() {
        for contender in ALL {
            assert!(Alone::new(contender).is_ok(), "{}", contender.id);
        }
    }

    #[test]
    fn a_failed_request_is_detected() {
        let app = || Ok(App::Inside(Router::new()));
        assert!(Alone::new(&Contender { id: "", title: "", tells: false, app }).is_err());
    }
}
