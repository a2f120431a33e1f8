//! Memory, and the durable store beside it. Callers are threads.

use super::contenders::{Contender, Hit, Kind, Work, patient};
use super::scene::{Scene, spread};
use super::servers::Servers;
use crate::Outcome;
use crate::redis::turn::Turn;
use quanta::Instant;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tollgate::algorithm::Op;
use tollgate::shared::{Ask, InProcess, Mode, SharedLimiter, SharedStore};
use tollgate::{KeyRef, Limiter, Memory};
use tollgate_durable::Durable;

/// More than any run can use up, and slower than any key is hit.
const LIMIT: &str = "1000/second burst=100000000000";

/// Hits between two looks at the clock, which takes as long as a hit.
const BLOCK: usize = 256;

/// The name of the group: all are measured by Memory's own hit.
pub(crate) const DURABLE: &str = "durable";

pub(crate) fn contenders(servers: &Servers) -> Outcome<Vec<Contender>> {
    let path = servers.directory().join("limits").display().to_string();
    let durable = Durable::builder(path).guard(patient()).open()?;
    let mut all = Vec::new();
    for scene in Scene::ALL {
        let mut add = |title, kind, work| {
            all.push(Contender { store: DURABLE, title, kind, scene, work });
        };
        let memory = Direct(Memory::new().limiter(LIMIT)?);
        add("Memory", Kind::Bare, threads(scene, memory));
        let behind = SharedLimiter::on(&InProcess::new(Memory::new()), "", LIMIT)?;
        add("Memory as a shared store", Kind::Other, threads(scene, behind));
        let prepared = durable.prepare("at once", &LIMIT.parse()?)?;
        let at_once = AtOnce { store: durable.clone(), prepared };
        add("durable, asked at once", Kind::Inner, threads(scene, at_once));
        add("durable", Kind::Ours, threads(scene, durable.limiter(LIMIT)?));
    }
    Ok(all)
}

struct Direct(Limiter<Memory>);

impl Hit for Direct {
    async fn hit(&self, _number: usize, key: &str) -> Outcome<bool> {
        Ok(self.0.hit(key).allowed())
    }
}

/// Without a limiter around it. What must wait for the disk does.
struct AtOnce {
    store: Durable,
    prepared: <Durable as SharedStore>::Prepared,
}

impl Hit for AtOnce {
    async fn hit(&self, _number: usize, key: &str) -> Outcome<bool> {
        let (prepared, key, op) = (&self.prepared, KeyRef::plain(key.as_bytes()), Op::Hit(1));
        if let Some(decision) = self.store.at_once(prepared, key, op, None) {
            return Ok(decision.allowed());
        }
        let decisions = self.store.ask(&[Ask { prepared, key, op }], Mode::Each, None).await?;
        Ok(decisions.iter().all(tollgate::Decision::allowed))
    }
}

/// Callers as threads. First as long untimed: the marks of keys grow to what the keys use.
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

/// Hits, and how many of them were allowed.
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
