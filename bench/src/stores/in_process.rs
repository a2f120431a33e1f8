//! Memory compared with the durable store. Callers are threads.

use super::contenders::{Contender, Hit, Kind, Work};
use super::scene::{Scene, spread};
use super::servers::Servers;
use crate::Outcome;
use crate::redis::turn::Turn;
use quanta::Instant;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tollgate::algorithm::Op;
use tollgate::shared::{Ask, InProcess, SharedLimiter, SharedStore};
use tollgate::{KeyRef, Limiter, Memory};
use tollgate_durable::Durable;

/// More than any run can use up, and refilled more slowly than any key is hit.
const LIMIT: &str = "1000/second burst=100000000000";

/// Hits between two readings of the clock, which take as long as a hit.
const BLOCK: usize = 256;

/// Both are compared with Memory, called in the same way: through a limiter of shared stores, or
/// the store alone.
pub(crate) const DURABLE: &str = "durable";
pub(crate) const IMMEDIATE: &str = "durable, asked immediately";

pub(crate) fn contenders(servers: &Servers) -> Outcome<Vec<Contender>> {
    let path = servers.directory().join("limits").display().to_string();
    // The settings are the defaults, except for the deadline.
    let guard = Durable::usual_guard().deadline(Duration::from_secs(10));
    let durable = Durable::builder(path).guard(guard).open()?;
    let mut all = Vec::new();
    for scene in Scene::ALL {
        let mut add = |store, title, kind, work| {
            all.push(Contender { store, title, kind, scene, work });
        };
        let limiter = Direct(Memory::new().limiter(LIMIT)?);
        add(DURABLE, "Memory", Kind::Other, threads(scene, limiter));
        let memory = InProcess::new(Memory::new());
        let shared = SharedLimiter::new(&memory, "", LIMIT)?;
        add(DURABLE, "Memory as a shared store", Kind::Bare, threads(scene, shared));
        add(DURABLE, "durable", Kind::Ours, threads(scene, durable.limiter(LIMIT)?));
        add(
            IMMEDIATE,
            "Memory, asked immediately",
            Kind::Bare,
            threads(scene, Immediate::on(&memory)?),
        );
        add(
            IMMEDIATE,
            "durable, asked immediately",
            Kind::Ours,
            threads(scene, Immediate::on(&durable)?),
        );
    }
    Ok(all)
}

struct Direct(Limiter<Memory>);

impl Hit for Direct {
    async fn hit(&self, _number: usize, key: &str) -> Outcome<bool> {
        Ok(self.0.hit(key).allowed())
    }
}

/// Without a limiter around it. Calls that need the disk wait for it.
struct Immediate<S: SharedStore> {
    store: S,
    prepared: S::Prepared,
}

impl<S: SharedStore> Immediate<S> {
    fn on(store: &S) -> Outcome<Immediate<S>> {
        let prepared = store.prepare("immediate", &LIMIT.parse()?)?;
        Ok(Immediate { store: store.clone(), prepared })
    }
}

impl<S: SharedStore> Hit for Immediate<S> {
    async fn hit(&self, _number: usize, key: &str) -> Outcome<bool> {
        let (prepared, key, op) = (&self.prepared, KeyRef::plain(key.as_bytes()), Op::Hit(1));
        if let Some(decision) = self.store.try_now(prepared, key, op, None) {
            return Ok(decision.allowed());
        }
        let (asks, deadline) = ([Ask { prepared, key, op }], self.store.guard().deadline());
        let decisions = self.store.ask_each(&asks, None, deadline).await?;
        Ok(decisions.iter().all(tollgate::Outcome::allowed))
    }
}

/// Callers as threads. First the same time untimed: the reserves of keys grow to what the keys use.
fn threads(scene: Scene, hit: impl Hit) -> Work {
    let (hit, keys) = (Arc::new(hit), scene.subjects());
    Box::new(move |runtime, span| {
        together(runtime.handle(), scene.callers, span, &*hit, &keys)?;
        together(runtime.handle(), scene.callers, span, &*hit, &keys)
    })
}

fn together(
    runtime: &Handle,
    callers: usize,
    span: Duration,
    hit: &impl Hit,
    keys: &[String],
) -> Outcome<Turn> {
    let start = Instant::now();
    let call = |caller| runtime.block_on(until(start, span, caller, callers, hit, keys));
    let (mut hits, mut allowed) = (0, 0);
    std::thread::scope(|scope| {
        let call = &call;
        let threads: Vec<_> =
            (0..callers).map(|caller| scope.spawn(move || call(caller))).collect();
        for thread in threads {
            let (more, more_allowed) = thread.join().map_err(|_| "a caller panicked")??;
            hits += more;
            allowed += more_allowed;
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    })?;
    let wall = start.elapsed();
    Ok(Turn { hits: hits as f64, allowed: allowed as f64, wall, waits: [None; 4] })
}

/// Counts hits, and how many of them were allowed.
async fn until(
    start: Instant,
    span: Duration,
    caller: usize,
    callers: usize,
    hit: &impl Hit,
    keys: &[String],
) -> Outcome<(usize, usize)> {
    let (mut hits, mut allowed, mut number) = (0, 0, caller);
    while start.elapsed() < span {
        for _ in 0..BLOCK {
            let key = &keys[spread(number, keys.len())];
            allowed += usize::from(hit.hit(number, key).await?);
            number += callers;
        }
        hits += BLOCK;
    }
    Ok((hits, allowed))
}
